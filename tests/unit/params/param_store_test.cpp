// unit/params/param_store_test.cpp — a rank's buckets: the same values on every layout, stages, and
// a store for a grown spec.
// SPDX-License-Identifier: Apache-2.0
#include "params/param_store.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "support/bits.hpp"
#include "support/tiny_spec.hpp"
#include "support/whole.hpp"

namespace cambium {
namespace {

using device::Backend;
using device::DType;
using params::Bucket;
using params::ParamStore;
using params::Part;
using params::Partition;

model::Spec four_heads(bool is_tied = true) {
  config::ModelConfig c;
  c.hidden_size = 12;
  c.intermediate_size = 50;  // more than a panel
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 4;
  c.tie_word_embeddings = is_tied;
  return model::make_spec(c, 53);
}

ParamStore make_store(const model::Spec& spec,
                      const Partition& where,
                      Backend backend = Backend::reference,
                      DType dtype = DType::f32) {
  return {spec, where, {.dtype = dtype, .backend = backend}, std::make_shared<params::Arenas>()};
}

Partition layout(const model::Spec& spec,
                 comm::PhysicalMesh physical,
                 comm::Coordinates place,
                 comm::LogicalMesh logical) {
  return {.logical = logical,
          .physical = physical,
          .place = place,
          .stages = model::plan_stages(spec, physical.pipeline)};
}

// Every element that any rank of the mesh holds, by (parameter, row, column); checks that all
// holders agree.
std::map<std::tuple<std::string, dim_t, dim_t>, float> all_values(const model::Spec& spec,
                                                                  const comm::PhysicalMesh& mesh,
                                                                  const comm::LogicalMesh& logical,
                                                                  std::uint64_t seed,
                                                                  Backend backend) {
  std::map<std::tuple<std::string, dim_t, dim_t>, float> all;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    ParamStore store =
        make_store(spec, layout(spec, mesh, comm::coordinates_of(mesh, rank), logical), backend);
    store.check_invariants();
    store.initialise(seed);
    for (const auto& b : store.buckets()) {
      for (const Part& p : b->parts()) {
        const float* v = b->value().as<float>() + p.offset;
        for (dim_t r = p.rows.begin; r < p.rows.end; ++r) {
          for (dim_t c = p.cols.begin; c < p.cols.end; ++c) {
            const auto [at, is_new] = all.try_emplace({p.spec.name, r, c}, *v);
            EXPECT_TRUE(testing::detail::same_bits(at->second, *v)) << p.spec.name;
            ++v;
          }
        }
      }
    }
  }
  return all;
}

TEST(ParamStore, InitialValuesDoNotDependOnTheLayout) {
  const model::Spec spec = four_heads();
  const auto one = all_values(spec, {}, {}, 7, Backend::reference);
  EXPECT_EQ(one.size(), static_cast<std::size_t>(model::parameter_count(model::inventory(spec))));
  EXPECT_EQ(all_values(spec, {}, {.tensor = 4, .data = 2}, 7, Backend::cpu), one);
  EXPECT_EQ(all_values(spec, {.tensor = 4}, {.tensor = 4}, 7, Backend::cpu), one);
  EXPECT_EQ(all_values(spec,
                       {.tensor = 2, .pipeline = 3, .data = 2},
                       {.tensor = 4, .data = 2},
                       7,
                       Backend::reference),
            one);
  EXPECT_NE(all_values(spec, {}, {}, 8, Backend::reference), one);
}

TEST(ParamStore, DoublesStartFromTheValuesOfFloats) {
  const model::Spec spec = four_heads();
  ParamStore single = make_store(spec, layout(spec, {}, {}, {}));
  ParamStore both = make_store(spec, layout(spec, {}, {}, {}), Backend::reference, DType::f64);
  single.initialise(7);
  both.initialise(7);
  for (const std::string& name : testing::names_of(single)) {
    EXPECT_BITS_EQ(testing::value_of(both, name), testing::value_of(single, name)) << name;
  }
}

TEST(ParamStore, AStageHoldsItsOwnAndATiedTableTwice) {
  const model::Spec spec = four_heads();
  for (int stage = 0; stage < 3; ++stage) {
    const ParamStore store =
        make_store(spec, layout(spec, {.pipeline = 3}, {.pipeline = stage}, {}));
    EXPECT_EQ(store.find(spec.embedding_uid) != nullptr, stage == 0);
    EXPECT_EQ(store.find(spec.norm_uid) != nullptr, stage == 2);
    EXPECT_EQ(store.head_table() != nullptr, stage == 2);
    for (int l = 0; l < 3; ++l) {
      EXPECT_EQ(store.find(spec.layers[static_cast<std::size_t>(l)].uid) != nullptr, l == stage);
    }
    if (stage == 2) {
      EXPECT_TRUE(store.buckets().back()->shape().is_mirror);
      EXPECT_EQ(store.buckets().back().get(), store.head_table());
    }
  }
  const ParamStore alone = make_store(spec, layout(spec, {}, {}, {}));
  EXPECT_EQ(alone.head_table(), alone.find(spec.embedding_uid));
  EXPECT_EQ(alone.head_table()->lanes(), 2);  // lookup and head, each reduced by itself
  const model::Spec untied = four_heads(false);
  const ParamStore separate = make_store(untied, layout(untied, {}, {}, {}));
  EXPECT_EQ(separate.head_table(), nullptr);
  EXPECT_NE(separate.find(untied.head_uid), nullptr);
  EXPECT_EQ(separate.find(untied.embedding_uid)->lanes(), 1);
}

TEST(ParamStore, ARankHoldsItsPartOnly) {
  const model::Spec spec = four_heads(false);
  const std::size_t whole = make_store(spec, layout(spec, {}, {}, {})).parameter_bytes();
  EXPECT_EQ(whole, 4U * static_cast<std::size_t>(model::parameter_count(model::inventory(spec))));
  const comm::PhysicalMesh mesh{.tensor = 4, .pipeline = 3};
  std::size_t sum = 0;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const ParamStore store =
        make_store(spec, layout(spec, mesh, comm::coordinates_of(mesh, rank), {.tensor = 4}));
    sum += store.parameter_bytes();
    EXPECT_LT(store.parameter_bytes(), whole / 4);
  }
  EXPECT_EQ(sum, whole + 3 * 4U * 7 * 12);  // seven gains of 12 stand on all four tensor ranks
}

TEST(ParamStore, ARegrownStoreSharesWhatItKeeps) {
  const model::Spec spec = four_heads();
  ParamStore old = make_store(spec, layout(spec, {}, {}, {.tensor = 2}));
  old.initialise(7);
  const auto count = old.buckets().size();
  const model::Spec grown = growth::grow(
      spec,
      {config::InsertLayers{.after = 0}, config::InsertGatedResidual{.after = "layers.2.mlp"}},
      5);
  ParamStore next = old.regrown(grown, layout(grown, {}, {}, {.tensor = 2}));
  next.check_invariants();
  EXPECT_EQ(old.buckets().size(), count);
  EXPECT_EQ(next.buckets().size(), count + 2);
  for (const auto& b : old.buckets()) {
    EXPECT_EQ(next.find(b->uid()), b.get());
  }
  // Names are the old ones until the commit, then the new positions.
  const std::uint64_t moved = spec.layers[1].uid;
  EXPECT_EQ(next.find(moved)->parts()[0].spec.name, "layers.1.attention.q.weight");
  next.take_names();
  EXPECT_EQ(next.find(moved)->parts()[0].spec.name, "layers.2.attention.q.weight");
}

TEST(ParamStore, DroppingARegrownStoreIsARollBack) {
  const model::Spec spec = four_heads();
  ParamStore old = make_store(spec, layout(spec, {}, {}, {}));
  old.initialise(7);
  const std::size_t bytes = old.arenas().params.live_bytes();
  const testing::Values before = testing::value_of(old, "layers.1.mlp.up.weight");
  {
    const model::Spec grown = growth::grow(spec, {config::InsertLayers{.after = 0, .count = 2}}, 5);
    ParamStore next = old.regrown(grown, layout(grown, {}, {}, {}));
    next.find(grown.layers[1].uid)->initialise(7);
    EXPECT_GT(old.arenas().params.live_bytes(), bytes);
  }
  EXPECT_EQ(old.arenas().params.live_bytes(), bytes);
  EXPECT_BITS_EQ(testing::value_of(old, "layers.1.mlp.up.weight"), before);
}

}  // namespace
}  // namespace cambium
