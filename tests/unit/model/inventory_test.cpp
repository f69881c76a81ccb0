// unit/model/inventory_test.cpp — the one list of parameters: names, uids, shapes, cuts, and values
// at birth.
// SPDX-License-Identifier: Apache-2.0
#include "model/inventory.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using model::Cut;
using model::Entity;
using model::ParameterSpec;
using testing::tiny_spec;
using testing::with_blocks;

std::map<std::string, ParameterSpec> by_name(const model::Spec& spec) {
  std::map<std::string, ParameterSpec> out;
  for (const Entity& e : model::inventory(spec)) {
    for (const ParameterSpec& p : e.parameters) {
      EXPECT_TRUE(out.emplace(p.name, p).second) << p.name << " twice";
    }
  }
  return out;
}

TEST(Inventory, NamesWhatTheCheckpointNames) {
  std::vector<std::string> names;
  for (const Entity& e :
       model::inventory(with_blocks(tiny_spec(false, 1), {"layers.0.attention", "embedding"}))) {
    for (const ParameterSpec& p : e.parameters) {
      names.push_back(p.name);
    }
  }
  const std::vector<std::string> want = {"embedding.weight",
                                         "embedding.inserted.0.norm.weight",
                                         "embedding.inserted.0.a.weight",
                                         "embedding.inserted.0.b.weight",
                                         "embedding.inserted.0.gate",
                                         "layers.0.attention_norm.weight",
                                         "layers.0.attention.q.weight",
                                         "layers.0.attention.k.weight",
                                         "layers.0.attention.v.weight",
                                         "layers.0.attention.o.weight",
                                         "layers.0.mlp_norm.weight",
                                         "layers.0.mlp.gate.weight",
                                         "layers.0.mlp.up.weight",
                                         "layers.0.mlp.down.weight",
                                         "layers.0.attention.inserted.0.norm.weight",
                                         "layers.0.attention.inserted.0.a.weight",
                                         "layers.0.attention.inserted.0.b.weight",
                                         "layers.0.attention.inserted.0.gate",
                                         "norm.weight",
                                         "head.weight"};
  EXPECT_EQ(names, want);
}

TEST(Inventory, ShapesAreTheNetworks) {
  const auto p = by_name(with_blocks(tiny_spec(), {"layers.0.mlp", "layers.1.mlp"}));
  const auto expect =
      [&](const std::string& name, dim_t rows, dim_t cols, Cut cut, bool has_decay) {
        const ParameterSpec& s = p.at(name);
        EXPECT_EQ(s.rows, rows) << name;
        EXPECT_EQ(s.cols, cols) << name;
        EXPECT_EQ(s.cut, cut) << name;
        EXPECT_EQ(s.has_decay, has_decay) << name;
        EXPECT_EQ(s.is_vector, !has_decay) << name;
      };
  expect("embedding.weight", 13, 12, Cut::rows, true);
  expect("layers.0.attention.q.weight", 16, 12, Cut::rows, true);
  expect("layers.0.attention.k.weight", 8, 12, Cut::rows, true);
  expect("layers.0.attention.o.weight", 12, 16, Cut::cols, true);
  expect("layers.0.mlp.up.weight", 11, 12, Cut::rows, true);
  expect("layers.0.mlp.down.weight", 12, 11, Cut::cols, true);
  expect("layers.0.mlp_norm.weight", 1, 12, Cut::replicated, false);
  expect("layers.0.mlp.inserted.0.a.weight", 7, 12, Cut::rows, true);
  expect("layers.0.mlp.inserted.0.b.weight", 12, 7, Cut::cols, true);
  expect("layers.0.mlp.inserted.0.gate", 1, 12, Cut::replicated, false);
  expect("layers.1.mlp.inserted.0.gate", 1, 1, Cut::replicated, false);  // scalar
  EXPECT_EQ(p.at("layers.1.mlp.inserted.0.gate").leaf_elements, 12);
  EXPECT_EQ(p.at("layers.0.attention.q.weight").units,
            2);  // a query head never leaves its key/value head
  // 13·12 table; a layer: 12 + 16·12 + 2·8·12 + 12·16 + 12 + 3·11·12; final norm; two blocks of 12
  // + 2·7·12 and gates 12, 1
  EXPECT_EQ(model::parameter_count(
                model::inventory(with_blocks(tiny_spec(), {"layers.0.mlp", "layers.1.mlp"}))),
            156 + 2 * (12 + 192 + 192 + 192 + 12 + 396) + 12 + 2 * 180 + 13);
}

TEST(Inventory, Gpt2HasBiasesPositionsAndNoGate) {
  std::vector<std::string> names;
  for (const Entity& e : model::inventory(testing::tiny_gpt2_spec(true, 1))) {
    for (const ParameterSpec& p : e.parameters) {
      names.push_back(p.name);
    }
  }
  const std::vector<std::string> want = {"embedding.weight",
                                         "positions.weight",
                                         "layers.0.attention_norm.weight",
                                         "layers.0.attention_norm.bias",
                                         "layers.0.attention.q.weight",
                                         "layers.0.attention.q.bias",
                                         "layers.0.attention.k.weight",
                                         "layers.0.attention.k.bias",
                                         "layers.0.attention.v.weight",
                                         "layers.0.attention.v.bias",
                                         "layers.0.attention.o.weight",
                                         "layers.0.attention.o.bias",
                                         "layers.0.mlp_norm.weight",
                                         "layers.0.mlp_norm.bias",
                                         "layers.0.mlp.up.weight",
                                         "layers.0.mlp.up.bias",
                                         "layers.0.mlp.down.weight",
                                         "layers.0.mlp.down.bias",
                                         "norm.weight",
                                         "norm.bias"};
  EXPECT_EQ(names, want);

  const auto p = by_name(testing::tiny_gpt2_spec());
  const auto expect = [&](const std::string& name, dim_t rows, dim_t cols, Cut cut, dim_t units) {
    EXPECT_EQ(p.at(name).rows, rows) << name;
    EXPECT_EQ(p.at(name).cols, cols) << name;
    EXPECT_EQ(p.at(name).cut, cut) << name;
    EXPECT_EQ(p.at(name).units, units) << name;
    EXPECT_EQ(p.at(name).has_decay, testing::ends_with(name, "positions.weight")) << name;
    // What every tensor rank holds has a leaf for its token sum.
    EXPECT_EQ(p.at(name).leaf_elements, cut == Cut::replicated ? rows * cols : 0) << name;
  };
  expect("positions.weight", 9, 12, Cut::replicated, 1);
  expect("layers.0.attention.q.bias", 1, 12, Cut::cols, 4);
  expect("layers.1.mlp.up.bias", 1, 11, Cut::cols, 11);
  expect("layers.0.attention.o.bias", 1, 12, Cut::replicated, 1);
  expect("layers.0.mlp.down.bias", 1, 12, Cut::replicated, 1);
  expect("norm.bias", 1, 12, Cut::replicated, 1);
  EXPECT_EQ(model::initial_value(p.at("layers.0.mlp_norm.weight"), 7, 0, 3), 1);
  EXPECT_EQ(model::initial_value(p.at("layers.0.mlp_norm.bias"), 7, 0, 3), 0);
  EXPECT_EQ(model::initial_value(p.at("layers.0.mlp.up.bias"), 7, 0, 3), 0);
  EXPECT_NE(model::initial_value(p.at("positions.weight"), 7, 0, 3), 0);
  EXPECT_FALSE(model::is_multiplied(p.at("positions.weight")));
  EXPECT_TRUE(model::is_multiplied(p.at("embedding.weight")));
  const auto untied = by_name(testing::tiny_gpt2_spec(false));
  EXPECT_FALSE(model::is_multiplied(untied.at("embedding.weight")));
  EXPECT_TRUE(model::is_multiplied(untied.at("head.weight")));
}

TEST(Inventory, UidsAreUniqueAndStay) {
  for (const model::Spec& gpt2 : {testing::tiny_gpt2_spec(), testing::tiny_gpt2_spec(false)}) {
    std::set<std::uint64_t> own;
    for (const auto& [name, p] : by_name(gpt2)) {
      EXPECT_TRUE(own.insert(p.uid).second && p.uid < gpt2.next_uid) << name;
    }
  }
  model::Spec spec = with_blocks(tiny_spec(false), model::insertion_points(tiny_spec()));
  model::add_classifier(spec, 3, 1);
  std::set<std::uint64_t> uids;
  for (const auto& [name, p] : by_name(spec)) {
    EXPECT_TRUE(uids.insert(p.uid).second) << name;
    EXPECT_LT(p.uid, spec.next_uid) << name;
  }
  const auto before = by_name(tiny_spec(false));
  const auto after = by_name(spec);
  for (const auto& [name, p] : before) {
    EXPECT_EQ(after.at(name).uid, p.uid) << name;
  }
}

TEST(Inventory, NamesMoveButUidsDoNot) {
  const model::Spec spec = tiny_spec();
  const auto before = by_name(spec);
  const auto after = by_name(growth::grow(spec, {config::InsertLayers{.after = 0}}, 1));
  EXPECT_EQ(after.at("layers.2.mlp.up.weight").uid, before.at("layers.1.mlp.up.weight").uid);
  EXPECT_EQ(after.at("layers.0.mlp.up.weight").uid, before.at("layers.0.mlp.up.weight").uid);
}

TEST(Inventory, ShardsTileEveryParameterRagged) {
  auto parameters = by_name(with_blocks(tiny_spec(false), {"norm"}));
  for (const auto& [name, p] : by_name(testing::tiny_gpt2_spec())) {
    parameters["gpt2 " + name] = p;
  }
  for (const auto& [name, p] : parameters) {
    for (dim_t shards = 1; shards <= 5; ++shards) {
      dim_t row = 0;
      dim_t col = 0;
      for (dim_t s = 0; s < shards; ++s) {
        const model::Rectangle r = model::shard_of(p, shards, s);
        if (p.cut == Cut::replicated) {
          EXPECT_EQ(r.rows, (Range{0, p.rows}));
          EXPECT_EQ(r.cols, (Range{0, p.cols}));
          continue;
        }
        const Range cut = p.cut == Cut::rows ? r.rows : r.cols;
        const Range whole = p.cut == Cut::rows ? r.cols : r.rows;
        dim_t& at = p.cut == Cut::rows ? row : col;
        const dim_t unit = (p.cut == Cut::rows ? p.rows : p.cols) / p.units;
        EXPECT_EQ(cut.begin, at) << name;
        EXPECT_EQ(cut.begin % unit, 0) << name << ": a unit was split";
        EXPECT_EQ(
            cut,
            (Range{share(p.units, shards, s).begin * unit, share(p.units, shards, s).end * unit}))
            << name;
        EXPECT_EQ(whole, (Range{0, p.cut == Cut::rows ? p.cols : p.rows})) << name;
        at = cut.end;
      }
      EXPECT_EQ(p.cut == Cut::rows ? row : col,
                p.cut == Cut::rows   ? p.rows
                : p.cut == Cut::cols ? p.cols
                                     : 0)
          << name;
    }
  }
}

TEST(Inventory, InitialValuesBelongToSeedUidAndPlace) {
  const auto p = by_name(tiny_spec());
  const ParameterSpec& q = p.at("layers.0.attention.q.weight");
  EXPECT_EQ(model::initial_value(q, 7, 3, 4), model::initial_value(q, 7, 3, 4));
  EXPECT_NE(model::initial_value(q, 7, 3, 4), model::initial_value(q, 8, 3, 4));
  EXPECT_NE(model::initial_value(q, 7, 3, 4), model::initial_value(q, 7, 4, 3));
  EXPECT_NE(model::initial_value(q, 7, 3, 4),
            model::initial_value(p.at("layers.1.attention.q.weight"), 7, 3, 4));
  double square = 0;
  for (dim_t r = 0; r < q.rows; ++r) {
    for (dim_t c = 0; c < q.cols; ++c) {
      square += std::pow(model::initial_value(q, 7, r, c), 2);
    }
  }
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(q.elements())), 0.3, 0.05);
  EXPECT_EQ(model::initial_value(p.at("layers.0.mlp_norm.weight"), 7, 0, 3), 1);
  const auto grown = by_name(growth::grow(tiny_spec(), {config::InsertLayers{.after = 0}}, 1));
  EXPECT_EQ(model::initial_value(grown.at("layers.1.attention.o.weight"), 7, 1, 1), 0);
  EXPECT_EQ(model::initial_value(grown.at("layers.1.mlp.down.weight"), 7, 1, 1), 0);
  EXPECT_NE(model::initial_value(grown.at("layers.1.mlp.up.weight"), 7, 1, 1), 0);
}

}  // namespace
}  // namespace cambium
