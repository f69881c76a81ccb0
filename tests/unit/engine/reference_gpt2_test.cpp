// unit/engine/reference_gpt2_test.cpp — a GPT-2 against numbers that another program made: logits,
// hidden states, losses, every gradient, three AdamW steps. The public files keep a product's
// weight as (inputs, outputs), and q, k and v side by side in one.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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
using testing::Tensor;
using testing::Values;

const std::filesystem::path kFolder =
    std::filesystem::path(CAMBIUM_SOURCE_DIR) / "tests/golden/gpt2";

model::Spec golden_spec() {
  const nlohmann::json c = nlohmann::json::parse(std::ifstream(kFolder / "config.json"));
  config::ModelConfig m;
  m.family = config::Family::gpt2;
  m.hidden_size = c.at("n_embd");
  m.intermediate_size = 4 * m.hidden_size;  // n_inner is null
  m.num_hidden_layers = c.at("n_layer");
  m.num_attention_heads = c.at("n_head");
  m.num_key_value_heads = m.num_attention_heads;
  m.max_position_embeddings = c.at("n_positions");
  m.tie_word_embeddings = c.at("tie_word_embeddings");
  m.layer_norm_epsilon = c.at("layer_norm_epsilon");
  return model::make_spec(m, c.at("vocab_size"));
}

// Columns [begin, begin + count) of a Conv1D weight (in, out), or of a bias (out), as ours: (out,
// in).
Values conv1d(const Tensor& t, std::int64_t begin, std::int64_t count) {
  const std::int64_t in = t.shape.size() == 2 ? t.shape[0] : 1;
  const std::int64_t out = t.shape.back();
  Values values;
  for (std::int64_t o = begin; o < begin + count; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      values.push_back(t.values[static_cast<std::size_t>(i * out + o)]);
    }
  }
  return values;
}

NamedValues translate(const testing::Tensors& theirs) {
  NamedValues ours;
  const auto take = [&](const std::string& our_name, const std::string& name) {
    ours[our_name] = theirs.at("transformer." + name).values;
  };
  take("embedding.weight", "wte.weight");
  take("positions.weight", "wpe.weight");
  for (const char* kind : {".weight", ".bias"}) {
    const auto convolve =
        [&](const std::string& our_name, const std::string& name, int part, int of) {
          const Tensor& t = theirs.at("transformer." + name + kind);
          const std::int64_t count = t.shape.back() / of;
          ours[our_name + kind] = conv1d(t, part * count, count);
        };
    for (int i = 0; i < 2; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      const std::string h = "h." + std::to_string(i) + ".";
      take(layer + "attention_norm" + kind, h + "ln_1" + kind);
      convolve(layer + "attention.q", h + "attn.c_attn", 0, 3);
      convolve(layer + "attention.k", h + "attn.c_attn", 1, 3);
      convolve(layer + "attention.v", h + "attn.c_attn", 2, 3);
      convolve(layer + "attention.o", h + "attn.c_proj", 0, 1);
      take(layer + "mlp_norm" + kind, h + "ln_2" + kind);
      convolve(layer + "mlp.up", h + "mlp.c_fc", 0, 1);
      convolve(layer + "mlp.down", h + "mlp.c_proj", 0, 1);
    }
    take(std::string("norm") + kind, std::string("ln_f") + kind);
  }
  return ours;
}

const Golden& golden() {
  static const Golden g = [] {
    Golden all = testing::read_golden(kFolder, golden_spec(), translate);
    all.noise = {"attention.k.bias"};  // a constant on all keys moves no softmax
    return all;
  }();
  return g;
}

std::string their_name(std::string name) {
  for (const auto& [ours, theirs] : {std::pair{"embedding", "wte"},
                                     {"positions", "wpe"},
                                     {"layers", "h"},
                                     {"attention_norm", "ln_1"},
                                     {"mlp_norm", "ln_2"},
                                     {"attention.q", "attn.c_attn"},
                                     {"attention.k", "attn.c_attn"},
                                     {"attention.v", "attn.c_attn"},
                                     {"attention.o", "attn.c_proj"},
                                     {"mlp.up", "mlp.c_fc"},
                                     {"mlp.down", "mlp.c_proj"}}) {
    if (const std::size_t at = name.find(ours); at != std::string::npos) {
      name.replace(at, std::string(ours).size(), theirs);
    }
  }
  return "transformer." + (name.rfind("norm", 0) == 0 ? "ln_f" + name.substr(4) : name);
}

TEST(ReferenceGpt2, DoublesOnReferenceAgree) {
  expect_golden(golden(), see(golden(), shape_of(Backend::reference, DType::f64)));
}

TEST(ReferenceGpt2, FloatsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(golden(), shape_of(Backend::reference, DType::f32));
  expect_golden(golden(), reference);
  expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::f32)), reference);
}

TEST(ReferenceGpt2, TwoTensorAndTwoDataShardsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(golden(), shape_of(Backend::reference, DType::f32, 2, 2));
  expect_golden(golden(), reference);
  expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::f32, 2, 2)), reference);
  // The logical mesh decides the bits: on 1 × 1 the sums go another way.
  EXPECT_FALSE(testing::bits_equal(
      "",
      "",
      reference.after3.at("positions.weight"),
      see(golden(), shape_of(Backend::cpu, DType::f32)).after3.at("positions.weight")));
}

TEST(ReferenceGpt2, Bf16IsAsNearAsAPublicRunAndCpuHasTheBitsOfReference) {
  for (const int shards : {1, 2}) {
    const Seen reference = see(golden(), shape_of(Backend::reference, DType::bf16, shards, shards));
    expect_near_public_bf16(golden(), reference, their_name);
    expect_same_bits(see(golden(), shape_of(Backend::cpu, DType::bf16, shards, shards)), reference);
  }
}

TEST(ReferenceGpt2, ASampleHasTheSameLogitsInAnyBatch) {
  testing::RigShape one_by_one = shape_of(Backend::cpu, DType::f32);
  one_by_one.batch = 1;
  const Seen together = see(golden(), shape_of(Backend::cpu, DType::f32));
  const Seen alone = see(golden(), one_by_one);
  expect_golden(golden(), alone);
  EXPECT_BITS_EQ(alone.logits, together.logits);
  EXPECT_BITS_EQ(alone.hidden[2], together.hidden[2]);
}

// Position rows that no token reaches have a gradient of zero, and decay.
TEST(ReferenceGpt2, UnusedPositionsOnlyDecay) {
  const Seen seen = see(golden(), shape_of(Backend::cpu, DType::f32));
  const Values& gradient = seen.gradients.at("positions.weight");
  const Values& start = golden().model.at("positions.weight");
  const Values& end = seen.after3.at("positions.weight");
  const std::size_t used = static_cast<std::size_t>(testing::kPositions) * 64;
  ASSERT_EQ(start.size(), 2 * used);
  for (std::size_t i = used; i < start.size(); ++i) {
    EXPECT_EQ(gradient[i], 0);
    EXPECT_NEAR(end[i], start[i] * std::pow(1 - 1e-4, 3), 1e-7);
  }
}

// A wrong network must not pass: the tolerances see a small change of one constant.
TEST(ReferenceGpt2, AnotherConstantIsSeen) {
  const std::vector<double>& want = golden().io.at("logits").values;
  const auto with = [&](const std::function<void(model::LayerSpec&)>& change) {
    Golden changed = golden();
    for (model::LayerSpec& l : changed.spec.layers) {
      change(l);
    }
    const Seen seen = see(changed, shape_of(Backend::cpu, DType::f32));
    return testing::largest_difference(seen.logits, want);
  };
  EXPECT_LT(with([](model::LayerSpec&) {}), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.norm_eps = 1e-3; }), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.attention_scale *= 1.001; }), 2e-5);
}

}  // namespace
}  // namespace cambium
