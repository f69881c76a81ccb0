// unit/growth/operators_test.cpp — every operator of the registry: what it does to the spec, to
// names, and what it refuses. That logits and first updates keep their bits is tested where the
// network runs (unit/layers, unit/optimizer).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <variant>

#include "growth/operation.hpp"
#include "model/inventory.hpp"
#include "support/throws.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using config::GrowOperation;
using config::InsertGatedResidual;
using config::InsertLayers;
using testing::expect_error;
using testing::tiny_spec;

// At least one of each kind, all valid on tiny_spec().
std::vector<GrowOperation> all_operations() {
  static_assert(std::variant_size_v<GrowOperation> == 2,
                "a new operator: add it here, and to the tests of bits");
  std::vector<GrowOperation> out;
  for (const std::string& module : model::insertion_points(tiny_spec())) {
    for (const config::GateKind gate : {config::GateKind::vector, config::GateKind::scalar}) {
      out.emplace_back(InsertGatedResidual{.after = module,
                                           .width = 5,
                                           .gate = gate,
                                           .learning_rate_multiplier = 0.5,
                                           .warmup_steps = 9});
    }
  }
  for (dim_t after = -1; after < 2; ++after) {
    for (const dim_t count : {1, 2, 5}) {
      out.emplace_back(InsertLayers{
          .after = after, .count = count, .learning_rate_multiplier = 0.5, .warmup_steps = 9});
    }
  }
  return out;
}

std::map<std::uint64_t, model::Entity> entities_of(const model::Spec& spec) {
  std::map<std::uint64_t, model::Entity> out;
  for (const model::Entity& e : model::inventory(spec)) {
    out[e.uid] = e;
  }
  return out;
}

TEST(Operators, SayWhoTheyAreAndWhatTheyKeep) {
  std::set<std::string> names;
  for (const GrowOperation& o : all_operations()) {
    const auto operation = growth::make_operation(o);
    EXPECT_EQ(operation->name(), config::operation_name(o));
    EXPECT_TRUE(testing::begins_with(operation->describe(), operation->name() + ": "));
    EXPECT_EQ(std::string(growth::name_of(operation->claim())), "F3");
    names.insert(operation->name());
  }
  EXPECT_EQ(names.size(), std::variant_size_v<GrowOperation>);
}

void expect_kept(const model::Spec& spec) {
  const auto before = entities_of(spec);
  for (const GrowOperation& o : all_operations()) {
    SCOPED_TRACE(growth::make_operation(o)->describe());
    const model::Spec grown = growth::grow(spec, {o}, 321);
    const auto after = entities_of(grown);
    for (const auto& [uid, e] : before) {
      ASSERT_TRUE(after.count(uid));
      EXPECT_EQ(after.at(uid).birth, e.birth);
      EXPECT_EQ(after.at(uid).born_closed, e.born_closed);
    }
    EXPECT_GT(after.size(), before.size());
    EXPECT_GT(grown.next_uid, spec.next_uid);
    for (const auto& [uid, e] : after) {
      if (before.count(uid) == 0) {
        EXPECT_EQ(e.birth, (model::Birth{321, 9, 0.5}));
        EXPECT_TRUE(e.born_closed);
        EXPECT_GE(uid, spec.next_uid);
        EXPECT_LT(uid, grown.next_uid);
      }
    }
  }
}

TEST(Operators, KeepEveryEntityAndBearNewOnesClosed) {
  for (const model::Spec& spec : testing::tiny_specs()) {
    expect_kept(spec);
  }
}

TEST(Operators, AreAFunctionOfTheSpec) {
  for (const GrowOperation& o : all_operations()) {
    EXPECT_EQ(growth::grow(tiny_spec(), {o}, 4), growth::grow(tiny_spec(), {o}, 4));
    EXPECT_NE(growth::grow(tiny_spec(), {o}, 4), growth::grow(tiny_spec(), {o}, 5));
  }
}

TEST(InsertGatedResidual, StandsBehindWhatStandsThere) {
  const model::Spec spec =
      growth::grow(tiny_spec(),
                   {InsertGatedResidual{.after = "layers.1", .width = 3},
                    InsertGatedResidual{.after = "layers.1.mlp", .gate = config::GateKind::scalar}},
                   1);
  const auto& blocks = spec.layers[1].inserted[static_cast<int>(model::LayerModule::mlp)];
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].width, 3);
  EXPECT_EQ(blocks[1].width, 12);  // 0: as wide as the stream
  EXPECT_EQ(blocks[1].gate, model::GateKind::scalar);
  EXPECT_EQ(blocks[0].norm_eps, 1e-5);
  EXPECT_EQ(blocks[0].norm_width, 12);
}

TEST(InsertLayers, StandBehindTheirNeighbourWithItsConstants) {
  model::Spec spec = testing::with_blocks(tiny_spec(), {"layers.0.mlp"});
  spec.layers[0].attention_scale = 0.125;
  spec.layers[0].rope_theta = 77;
  spec.layers[0].ffn = 9;
  spec.layers[1].ffn = 5;
  for (const dim_t after : {-1, 0}) {  // the neighbour of a layer at the front is the first
    const model::Spec grown = growth::grow(spec, {InsertLayers{.after = after, .count = 3}}, 1);
    ASSERT_EQ(grown.layers.size(), 5U);
    std::set<std::uint64_t> uids;
    for (dim_t i = 0; i < 3; ++i) {
      const model::LayerSpec& l = grown.layers[static_cast<std::size_t>(after + 1 + i)];
      EXPECT_EQ(l.attention_scale, 0.125);
      EXPECT_EQ(l.rope_theta, 77);
      EXPECT_EQ(l.ffn, 9);
      EXPECT_EQ(l.init_std, 0.3);
      EXPECT_EQ(l.init_std_out, 0);
      EXPECT_TRUE(l.inserted[static_cast<int>(model::LayerModule::mlp)]
                      .empty());  // blocks stay with the neighbour
      uids.insert(l.uid);
    }
    EXPECT_EQ(uids.size(), 3U);
    const std::size_t kept = after == -1 ? 3 : 0;
    EXPECT_EQ(grown.layers[kept], spec.layers[0]);
    EXPECT_EQ(grown.layers[4], spec.layers[1]);
  }
  const model::Spec last = growth::grow(spec, {InsertLayers{.after = 1}}, 1);
  EXPECT_EQ(last.layers[2].ffn, 5);
}

TEST(InsertLayers, ManyAtOnceAreOneAfterTheOther) {
  const model::Spec at_once = growth::grow(tiny_spec(), {InsertLayers{.after = 0, .count = 3}}, 1);
  const model::Spec one_by_one =
      growth::grow(tiny_spec(),
                   {InsertLayers{.after = 0}, InsertLayers{.after = 1}, InsertLayers{.after = 2}},
                   1);
  EXPECT_EQ(at_once, one_by_one);
}

TEST(Operators, EachSeesTheNamesThatTheOneBeforeLeft) {
  const InsertLayers layers{.after = 1, .count = 2};
  const InsertGatedResidual block{.after = "layers.3.attention"};
  const model::Spec grown = growth::grow(tiny_spec(), {layers, block}, 1);
  EXPECT_EQ(grown.layers[3].inserted[static_cast<int>(model::LayerModule::attention)].size(), 1U);
  expect_error(Code::usage, {"layers.3.attention", "model of 2 layers"}, [&] {
    (void)growth::grow(tiny_spec(), {block, layers}, 1);
  });
}

TEST(Operators, RefuseAPlaceThatIsNotThere) {
  for (const char* module : {"layers.2.mlp", "head", "layers.0.gate"}) {
    expect_error(Code::usage, {"insert_gated_residual", "after", module}, [&] {
      (void)growth::grow(tiny_spec(), {InsertGatedResidual{.after = module}}, 1);
    });
  }
  for (const dim_t after : {-2, 2, 100}) {
    expect_error(Code::usage, {"insert_layers", "after", std::to_string(after), "-1 to 1"}, [&] {
      (void)growth::grow(tiny_spec(), {InsertLayers{.after = after}}, 1);
    });
  }
}

TEST(Operators, ACheckCatchesOneThatBreaksWhatItKeeps) {
  const model::Spec spec = tiny_spec();
  growth::check_kept(spec, spec);
  model::Spec wider = spec;
  wider.layers[1].ffn += 1;
  expect_error(
      Code::bug, {"layers.1.mlp", "changed shape"}, [&] { growth::check_kept(spec, wider); });
  model::Spec shorter = spec;
  shorter.layers.pop_back();
  expect_error(Code::bug, {"layers.1", "is gone"}, [&] { growth::check_kept(spec, shorter); });
}

}  // namespace
}  // namespace cambium
