// unit/engine/reference_llama_test.cpp — a Llama against numbers that another program made: logits,
// hidden states, losses, every gradient, three AdamW steps; in bf16 as near as a public bf16 run.
// SPDX-License-Identifier: Apache-2.0
#include "reference_run.hpp"
#include "support/bits.hpp"

namespace cambium {
namespace {

using testing::Backend;
using testing::DType;
using testing::Golden;
using testing::NamedValues;
using testing::see;
using testing::Seen;
using testing::shape_of;

const std::filesystem::path kFolder =
    std::filesystem::path(CAMBIUM_SOURCE_DIR) / "tests/golden/llama";

model::Spec golden_spec() {
  const nlohmann::json c = nlohmann::json::parse(std::ifstream(kFolder / "config.json"));
  config::ModelConfig m;
  m.hidden_size = c.at("hidden_size");
  m.intermediate_size = c.at("intermediate_size");
  m.num_hidden_layers = c.at("num_hidden_layers");
  m.num_attention_heads = c.at("num_attention_heads");
  m.num_key_value_heads = c.at("num_key_value_heads");
  m.head_dim = c.at("head_dim").get<dim_t>();
  m.max_position_embeddings = c.at("max_position_embeddings");
  m.tie_word_embeddings = c.at("tie_word_embeddings");
  m.rms_norm_eps = c.at("rms_norm_eps");
  m.rope_theta = c.at("rope_parameters").at("rope_theta");
  return model::make_spec(m, c.at("vocab_size"));
}

// Our name of one of Hugging Face's. Their rotary pairs are half a head apart, as ours, and weights
// are (outputs, inputs): nothing is permuted.
std::string our_name(std::string name) {
  for (const auto& [theirs, ours] :
       std::map<std::string, std::string>{{"model.embed_tokens", "embedding"},
                                          {"model.norm", "norm"},
                                          {"lm_head", "head"},
                                          {"model.layers", "layers"},
                                          {"input_layernorm", "attention_norm"},
                                          {"post_attention_layernorm", "mlp_norm"},
                                          {"self_attn.q_proj", "attention.q"},
                                          {"self_attn.k_proj", "attention.k"},
                                          {"self_attn.v_proj", "attention.v"},
                                          {"self_attn.o_proj", "attention.o"},
                                          {"gate_proj", "gate"},
                                          {"up_proj", "up"},
                                          {"down_proj", "down"}}) {
    if (const std::size_t at = name.find(theirs); at != std::string::npos) {
      name.replace(at, theirs.size(), ours);
    }
  }
  return name;
}

NamedValues translate(const testing::Tensors& theirs) {
  NamedValues ours;
  for (const auto& [name, tensor] : theirs) {
    ours[our_name(name)] = tensor.values;
  }
  return ours;
}

const Golden& golden() {
  static const Golden g = testing::read_golden(kFolder, golden_spec(), translate);
  return g;
}

std::string their_name(const std::string& ours) {
  for (const auto& [name, distance] : golden().bf16.at("gradients_relative_l2").items()) {
    if (our_name(name) == ours) {
      return name;
    }
  }
  return "none for " + ours;
}

TEST(ReferenceLlama, DoublesOnReferenceAgree) {
  expect_golden(golden(), see(golden(), shape_of(Backend::reference, DType::f64)));
}

TEST(ReferenceLlama, FloatsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(golden(), shape_of(Backend::reference, DType::f32));
  expect_golden(golden(), reference);
  expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::f32)), reference);
}

TEST(ReferenceLlama, TwoTensorAndTwoDataShardsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(golden(), shape_of(Backend::reference, DType::f32, 2, 2));
  expect_golden(golden(), reference);
  expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::f32, 2, 2)), reference);
  // The logical mesh decides the bits: on 1 × 1 the sums go another way.
  EXPECT_FALSE(testing::bits_equal(
      "",
      "",
      reference.after3.at("layers.0.mlp.up.weight"),
      see(golden(), shape_of(Backend::cpu, DType::f32)).after3.at("layers.0.mlp.up.weight")));
}

TEST(ReferenceLlama, Bf16IsAsNearAsAPublicRunAndCpuHasTheBitsOfReference) {
  for (const int shards : {1, 2}) {
    const Seen reference = see(golden(), shape_of(Backend::reference, DType::bf16, shards, shards));
    expect_near_public_bf16(golden(), reference, their_name);
    expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::bf16, shards, shards)), reference);
  }
}

TEST(ReferenceLlama, ASampleHasTheSameLogitsInAnyBatch) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    testing::RigShape one_by_one = shape_of(Backend::cpu, dtype);
    one_by_one.batch = 1;
    const Seen together = see(golden(), shape_of(Backend::cpu, dtype));
    const Seen alone = see(golden(), one_by_one);
    EXPECT_BITS_EQ(alone.logits, together.logits);
    EXPECT_BITS_EQ(alone.hidden[2], together.hidden[2]);
    if (dtype == DType::f32) {
      expect_golden(golden(), alone);
    }
  }
}

// A wrong network must not pass: the tolerances see a small change of one constant.
TEST(ReferenceLlama, AnotherConstantIsSeen) {
  const testing::Values& want = golden().io.at("logits").values;
  const auto with = [&](const std::function<void(model::LayerSpec&)>& change) {
    Golden changed = golden();
    for (model::LayerSpec& l : changed.spec.layers) {
      change(l);
    }
    const Seen seen = see(changed, shape_of(Backend::cpu, DType::f32));
    return testing::largest_difference(seen.logits, want);
  };
  EXPECT_LT(with([](model::LayerSpec&) {}), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.rope_theta *= 1.01; }), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.norm_eps = 1e-3; }), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.attention_scale *= 1.001; }), 2e-5);
}

}  // namespace
}  // namespace cambium
