// unit/model/spec_test.cpp — a spec is a value: what it is made of, and its way into a checkpoint
// and back.
// SPDX-License-Identifier: Apache-2.0
#include "model/spec.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

#include "model/inventory.hpp"
#include "support/throws.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using testing::expect_error;
using testing::tiny_spec;
using testing::with_blocks;

// Everything that a spec can hold, at values that are no defaults.
model::Spec full_spec() {
  model::Spec spec = with_blocks(tiny_spec(false), model::insertion_points(tiny_spec()));
  spec = growth::grow(
      spec,
      {config::InsertLayers{
          .after = 0, .count = 2, .learning_rate_multiplier = 0.1 + 0.2, .warmup_steps = 17}},
      123456789012);
  spec.layers[0].attention_scale = 1.0 / 3;
  spec.layers[1].rope_theta = 500000.25;
  spec.layers[2].inserted[1].push_back({.uid = 1 << 20, .width = 3, .born_closed = false});
  model::add_classifier(spec, 77, 99);
  return spec;
}

TEST(Spec, StoresConstantsPerLayer) {
  const model::Spec spec = tiny_spec();
  ASSERT_EQ(spec.layers.size(), 2U);
  for (const model::LayerSpec& l : spec.layers) {
    EXPECT_EQ(l.attention_scale, 0.5);  // 1/sqrt(head width 4)
    EXPECT_EQ(l.init_std, 0.3);
    EXPECT_DOUBLE_EQ(l.init_std_out, 0.3 / std::sqrt(4.0));  // 1/sqrt(2 L)
    EXPECT_EQ(l.norm_width, 12);
    EXPECT_FALSE(l.born_closed);
  }
  EXPECT_EQ(spec.head_uid, 0U);
  EXPECT_NE(tiny_spec(false).head_uid, 0U);
}

TEST(Spec, HeadWidthFollowsHiddenWhereNoneIsGiven) {
  config::ModelConfig c;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.num_key_value_heads = 1;
  c.num_hidden_layers = 1;
  c.intermediate_size = 8;
  EXPECT_EQ(model::make_spec(c, 5).layers[0].head_width, 8);
  c.head_dim = 16;
  EXPECT_EQ(model::make_spec(c, 5).layers[0].head_width, 16);
}

TEST(Spec, ComesBackFromJson) {
  const model::Spec spec = full_spec();
  const nlohmann::json json = model::to_json(spec);
  EXPECT_EQ(model::spec_from_json(json), spec);
  EXPECT_EQ(model::spec_from_json(nlohmann::json::parse(json.dump())),
            spec);  // through text: every bit of a double
  const model::Spec gpt2 = testing::tiny_gpt2_spec();
  EXPECT_EQ(model::spec_from_json(model::to_json(gpt2)), gpt2);
  EXPECT_NE(model::spec_from_json(json), tiny_spec());
}

TEST(Spec, EveryFieldIsInItsJson) {
  const model::Spec spec = full_spec();
  const nlohmann::json json = model::to_json(spec);
  // Absent in checkpoints from before the families: then it is a Llama's.
  const auto is_later = [](const std::string& key) {
    return key == "norm" || key == "activation" || key == "biases" || key == "has_rope" ||
           key == "positions_uid";
  };
  for (const auto& [key, value] : json.items()) {
    nlohmann::json without = json;
    without.erase(key);
    if (is_later(key)) {
      EXPECT_EQ(model::spec_from_json(without), spec) << key;
      continue;
    }
    expect_error(
        Code::bad_input, {"model spec", key}, [&] { (void)model::spec_from_json(without); });
  }
  for (const auto& [key, value] : json["layers"][0].items()) {
    nlohmann::json without = json;
    without["layers"][0].erase(key);
    if (is_later(key)) {
      EXPECT_EQ(model::spec_from_json(without), spec) << key;
      continue;
    }
    expect_error(
        Code::bad_input, {"model spec", key}, [&] { (void)model::spec_from_json(without); });
  }
  nlohmann::json wrong = json;
  wrong["hidden"] = "wide";
  expect_error(Code::bad_input, {"model spec"}, [&] { (void)model::spec_from_json(wrong); });
  wrong = json;
  wrong["norm"] = "batch";
  expect_error(Code::bad_input, {"model spec", "norm", "rms, layer", "batch"}, [&] {
    (void)model::spec_from_json(wrong);
  });
}

TEST(Spec, NamesItsInsertionPointsInOrderOfExecution) {
  const std::vector<std::string> points = model::insertion_points(tiny_spec());
  const std::vector<std::string> want = {"embedding",
                                         "layers.0.attention_norm",
                                         "layers.0.attention",
                                         "layers.0.mlp_norm",
                                         "layers.0.mlp",
                                         "layers.1.attention_norm",
                                         "layers.1.attention",
                                         "layers.1.mlp_norm",
                                         "layers.1.mlp",
                                         "norm"};
  EXPECT_EQ(points, want);
  model::Spec spec = tiny_spec();
  std::set<const void*> places;
  for (const std::string& point : points) {
    places.insert(&model::blocks_after(spec, point));
  }
  EXPECT_EQ(places.size(), points.size());  // each its own list
  EXPECT_EQ(&model::blocks_after(spec, "layers.1"), &model::blocks_after(spec, "layers.1.mlp"));
}

TEST(Spec, RefusesAModuleThatIsNotThere) {
  model::Spec spec = tiny_spec();
  for (const char* wrong : {"layers.2.mlp",
                            "layers.-1.mlp",
                            "layers.0.mpl",
                            "layers.0.mlp.",
                            "layers.",
                            "layers",
                            "",
                            "Norm",
                            "layers.00x"}) {
    SCOPED_TRACE(wrong);
    expect_error(Code::usage,
                 {"after", std::string("\"") + wrong + "\"", "embedding", "from 0 to 1"},
                 [&] { (void)model::blocks_after(spec, wrong); });
  }
}

TEST(Spec, AClassifierTakesItsOwnUids) {
  model::Spec spec = tiny_spec();
  model::add_classifier(spec, 5, 40);
  EXPECT_EQ(spec.classes, 5);
  EXPECT_EQ(spec.classifier_birth.step, 40);
  const std::uint64_t first = spec.classifier_uid;
  model::add_classifier(spec, 7, 80);
  EXPECT_NE(spec.classifier_uid, first);  // another head: nothing is kept
  EXPECT_EQ(model::inventory(spec).back().parameters[0].rows, 7);
}

}  // namespace
}  // namespace cambium
