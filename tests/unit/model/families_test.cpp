// unit/model/families_test.cpp — each family's network, and the full-size campaigns of
// configs/model.
// SPDX-License-Identifier: Apache-2.0
#include "config/families.hpp"

#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "config/campaign.hpp"
#include "model/inventory.hpp"
#include "model/stages.hpp"

namespace cambium {
namespace {

config::ModelConfig small(config::Family family) {
  config::ModelConfig c;
  c.family = family;
  c.hidden_size = 24;
  c.intermediate_size = 40;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 4;
  c.max_position_embeddings = 16;
  c.rms_norm_eps = 1e-6;
  c.layer_norm_epsilon = 1e-5;
  return c;
}

TEST(Families, HaveNamesOfTheirOwnAndNetworksWithoutACollision) {
  std::set<std::string_view> names;
  for (const config::FamilyTraits& family : config::kFamilies) {
    SCOPED_TRACE(family.name);
    EXPECT_TRUE(names.insert(family.name).second);
    EXPECT_EQ(config::traits_of(family.family).name, family.name);
    const model::Spec spec = model::make_spec(small(family.family), 31);
    EXPECT_EQ(spec.family, family.name);
    std::set<std::uint64_t> uids;
    for (const model::Entity& e : model::inventory(spec)) {
      for (const model::ParameterSpec& p : e.parameters) {
        EXPECT_TRUE(uids.insert(p.uid).second) << p.name;
        EXPECT_LT(p.uid, e.uid + model::kUidsPerEntity) << p.name;
      }
    }
  }
}

TEST(Families, Gpt2IsBuiltFromItsTraits) {
  const model::Spec spec = model::make_spec(small(config::Family::gpt2), 31);
  EXPECT_NE(spec.positions_uid, 0U);
  EXPECT_EQ(spec.norm, model::NormKind::layer);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  const model::Spec llama = model::make_spec(small(config::Family::llama), 31);
  EXPECT_EQ(llama.positions_uid, 0U);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  for (const model::LayerSpec& l : spec.layers) {
    EXPECT_EQ(l.norm, model::NormKind::layer);
    EXPECT_EQ(l.activation, model::Activation::gelu_tanh);
    EXPECT_EQ(l.biases, model::Biases::all);
    EXPECT_FALSE(l.has_rope);
    EXPECT_EQ(l.norm_eps, 1e-5);
  }
  // Two matrices in the mlp instead of three.
  EXPECT_EQ(model::layer_cost(llama, 0) - model::layer_cost(spec, 0), 24.0 * 40);
}

// The number that its paper's model has under its public name.
TEST(Families, Gpt2SmallHasItsSize) {
  const config::Campaign c = config::load_campaign(std::filesystem::path(CAMBIUM_SOURCE_DIR) /
                                                   "configs/model/gpt2-124m.yaml");
  const model::Spec spec = model::make_spec(c.model, config::vocabulary_size(c));
  EXPECT_EQ(model::parameter_count(model::inventory(spec)), 124439808);
}

}  // namespace
}  // namespace cambium
