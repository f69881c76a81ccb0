// unit/engine/reference_llama_test.cpp — the network against numbers that another program made:
// logits, hidden states, losses, every gradient, three AdamW steps (tests/golden/README.md says how
// they were made and how close is close).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/bits.hpp"
#include "support/rig.hpp"
#include "support/safetensors.hpp"

namespace cambium {
namespace {

using device::Backend;
using device::DType;
using testing::Rig;
using testing::Tensor;
using testing::Tensors;
using testing::Tokens;

const std::filesystem::path kFolder =
    std::filesystem::path(CAMBIUM_SOURCE_DIR) / "tests/golden/llama";

struct Golden {
  nlohmann::json config = nlohmann::json::parse(std::ifstream(kFolder / "config.json"));
  nlohmann::json meta = nlohmann::json::parse(std::ifstream(kFolder / "meta.json"));
  Tensors model = testing::read_safetensors(kFolder / "model.safetensors");
  Tensors io = testing::read_safetensors(kFolder / "io.safetensors");
  Tensors grads = testing::read_safetensors(kFolder / "grads.safetensors");
  Tensors after3 = testing::read_safetensors(kFolder / "after3.safetensors");
};

const Golden& golden() {
  static const Golden g;
  return g;
}

model::Spec golden_spec() {
  const nlohmann::json& c = golden().config;
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

// Hugging Face's name of one of our parameters. Their rotary pairs are half a head apart, as ours:
// nothing is permuted.
std::string their_name(const std::string& ours) {
  if (ours == "embedding.weight")
    return "model.embed_tokens.weight";
  if (ours == "norm.weight")
    return "model.norm.weight";
  if (ours == "head.weight")
    return "lm_head.weight";
  const std::size_t dot = ours.find('.', std::string("layers.").size());
  const std::map<std::string, std::string> parts = {{"attention_norm", "input_layernorm"},
                                                    {"attention.q", "self_attn.q_proj"},
                                                    {"attention.k", "self_attn.k_proj"},
                                                    {"attention.v", "self_attn.v_proj"},
                                                    {"attention.o", "self_attn.o_proj"},
                                                    {"mlp_norm", "post_attention_layernorm"},
                                                    {"mlp.gate", "mlp.gate_proj"},
                                                    {"mlp.up", "mlp.up_proj"},
                                                    {"mlp.down", "mlp.down_proj"}};
  const std::size_t end = ours.rfind(".weight");
  return "model." + ours.substr(0, dot + 1) + parts.at(ours.substr(dot + 1, end - dot - 1)) +
         ".weight";
}

// What one program computes of the golden run; compared with the files, and bit for bit with
// another backend.
struct Seen {
  std::vector<double> hidden[3];  // (B, T, D)
  std::vector<double> logits;     // (B, T, V)
  double loss = 0;
  double loss_masked = 0;
  std::map<std::string, std::vector<double>> gradients;  // by our names
  std::vector<double> train_losses;
  std::vector<double> grad_norms;
  double loss_after3 = 0;
  std::map<std::string, std::vector<double>> after3;
};

constexpr dim_t kSamples = 2;
constexpr dim_t kPositions = 32;
constexpr double kValid = kSamples * (kPositions - 1);

// The samples (B, T) as micro-batches of shape.batch of them, the targets one position ahead; the
// last position has none.
std::vector<Tokens> cut(const testing::RigShape& shape, const double* ids, const double* labels) {
  std::vector<Tokens> out;
  const dim_t count = kSamples / shape.batch;
  for (dim_t m = 0; m < count; ++m) {
    Tokens t{.data_shard = m / (count / shape.data)};
    for (dim_t at = 0; at < kPositions; ++at) {
      for (dim_t b = 0; b < shape.batch; ++b) {
        const dim_t row = (m * shape.batch + b) * kPositions + at;
        t.ids.push_back(static_cast<std::int32_t>(ids[row]));
        t.targets.push_back(at + 1 < kPositions ? static_cast<std::int32_t>(labels[row + 1])
                                                : -100);
      }
    }
    out.push_back(std::move(t));
  }
  return out;
}

// Puts rows (T*B) of micro-batch m in their places of (B, T, …).
void place(const testing::RigShape& shape,
           dim_t m,
           const std::vector<double>& rows,
           std::vector<double>& to) {
  const dim_t width = static_cast<dim_t>(rows.size()) / (kPositions * shape.batch);
  to.resize(static_cast<std::size_t>(kSamples * kPositions * width));
  for (dim_t at = 0; at < kPositions; ++at) {
    for (dim_t b = 0; b < shape.batch; ++b) {
      std::copy_n(rows.begin() + (at * shape.batch + b) * width,
                  width,
                  to.begin() + ((m * shape.batch + b) * kPositions + at) * width);
    }
  }
}

void see_forward(Rig& rig, std::vector<Tokens>& tokens, Seen& seen) {
  engine::StageModel& model = rig.runner.model();
  engine::Slot slot = model.make_slot();
  for (std::size_t m = 0; m < tokens.size(); ++m) {
    const auto index = static_cast<dim_t>(m);
    const device::View ids =
        device::view_of(tokens[m].ids.data(), static_cast<dim_t>(tokens[m].ids.size()));
    (void)model.forward({}, ids, slot, layers::Mode::forward_only);
    const device::View h = model.norm->forward(slot.output, *slot.norm, layers::Mode::forward_only);
    place(rig.shape, index, testing::values_of(slot.embedding->full), seen.hidden[0]);
    place(rig.shape, index, testing::values_of(slot.layers[0].out), seen.hidden[1]);
    place(rig.shape, index, testing::values_of(h), seen.hidden[2]);
    place(rig.shape, index, rig.logits(tokens[m]), seen.logits);
  }
}

double masked_loss(Rig& rig) {
  const Tensors& io = golden().io;
  std::vector<Tokens> tokens =
      cut(rig.shape, io.at("input_ids").values.data(), io.at("labels_masked").values.data());
  double valid = 0;
  for (const Tokens& t : tokens) {
    valid += static_cast<double>(
        std::count_if(t.targets.begin(), t.targets.end(), [](auto v) { return v >= 0; }));
  }
  return rig.run(testing::micro_batches(tokens, 0, layers::Mode::forward_only)) / valid;
}

Seen see(const testing::RigShape& shape, const model::Spec& spec = golden_spec()) {
  Rig rig(spec, shape);
  for (const std::string& name : rig.names()) {
    rig.set_value(name, golden().model.at(their_name(name)).values);
  }
  const Tensors& io = golden().io;
  const double* first = io.at("input_ids").values.data();
  std::vector<Tokens> tokens = cut(shape, first, first);
  Seen seen;
  see_forward(rig, tokens, seen);
  seen.loss_masked = masked_loss(rig);
  seen.loss = rig.run(testing::micro_batches(tokens, 1 / kValid)) / kValid;
  for (const std::string& name : rig.names()) {
    seen.gradients[name] = rig.gradient(name);
  }
  const config::OptimizerConfig adamw;
  for (dim_t step = 0; step < 3; ++step) {
    const double* ids = io.at("train_ids").values.data() + step * kSamples * kPositions;
    std::vector<Tokens> train = cut(shape, ids, ids);
    const auto [loss, tail] = rig.step(testing::micro_batches(train, 1 / kValid), adamw, 1e-3);
    seen.train_losses.push_back(loss / kValid);
    seen.grad_norms.push_back(tail.norm);
  }
  seen.loss_after3 =
      rig.run(testing::micro_batches(tokens, 0, layers::Mode::forward_only)) / kValid;
  for (const std::string& name : rig.names()) {
    seen.after3[name] = rig.value(name);
  }
  return seen;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

void expect_gradients(const Seen& seen) {
  EXPECT_EQ(seen.gradients.size(), golden().grads.size());
  for (const auto& [name, got] : seen.gradients) {
    const std::vector<double>& want = golden().grads.at(their_name(name)).values;
    ASSERT_EQ(got.size(), want.size()) << name;
    EXPECT_LT(distance(got, want), 1e-4 * distance(want, std::vector<double>(want.size(), 0)))
        << name;
    EXPECT_LT(largest_difference(got, want), 2e-6) << name;
  }
}

void expect_after3(const Seen& seen) {
  std::size_t elements = 0;
  std::size_t far = 0;
  for (const auto& [name, got] : seen.after3) {
    const std::vector<double>& want = golden().after3.at(their_name(name)).values;
    ASSERT_EQ(got.size(), want.size()) << name;
    EXPECT_LT(largest_difference(got, want), 3e-4) << name;
    elements += got.size();
    for (std::size_t i = 0; i < got.size(); ++i) {
      far += std::abs(got[i] - want[i]) > 2e-5 ? 1 : 0;
    }
  }
  EXPECT_EQ(elements, golden().meta.at("parameters").get<std::size_t>());
  EXPECT_LT(static_cast<double>(far), 1e-3 * static_cast<double>(elements));
}

void expect_golden(const Seen& seen) {
  const Tensors& io = golden().io;
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLOSE(seen.hidden[i], io.at("hidden." + std::to_string(i)).values, {.atol = 2e-5}) << i;
  }
  EXPECT_CLOSE(seen.logits, io.at("logits").values, {.atol = 2e-5});
  EXPECT_CLOSE(seen.loss, io.at("loss").values[0], {.atol = 1e-5});
  EXPECT_CLOSE(seen.loss_masked, io.at("loss_masked").values[0], {.atol = 1e-5});
  EXPECT_CLOSE(seen.train_losses, io.at("train_losses").values, {.atol = 1e-5});
  EXPECT_CLOSE(seen.grad_norms, io.at("grad_norms").values, {.atol = 1e-4});
  EXPECT_CLOSE(seen.loss_after3, io.at("loss_after3").values[0], {.atol = 1e-5});
  expect_gradients(seen);
  expect_after3(seen);
}

void expect_same_bits(const Seen& a, const Seen& b) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_BITS_EQ(a.hidden[i], b.hidden[i]) << i;
  }
  EXPECT_BITS_EQ(a.logits, b.logits);
  EXPECT_BITS_EQ(a.loss, b.loss);
  EXPECT_BITS_EQ(a.loss_masked, b.loss_masked);
  EXPECT_BITS_EQ(a.train_losses, b.train_losses);
  EXPECT_BITS_EQ(a.grad_norms, b.grad_norms);
  EXPECT_BITS_EQ(a.loss_after3, b.loss_after3);
  for (const auto& [name, got] : a.gradients) {
    EXPECT_BITS_EQ(got, b.gradients.at(name)) << name;
    EXPECT_BITS_EQ(a.after3.at(name), b.after3.at(name)) << name;
  }
}

testing::RigShape shape_of(Backend backend, DType dtype, int tensor = 1, int data = 1) {
  return {.backend = backend,
          .dtype = dtype,
          .tensor = tensor,
          .data = data,
          .batch = kSamples / data,
          .positions = kPositions};
}

TEST(ReferenceLlama, DoublesOnReferenceAgree) {
  expect_golden(see(shape_of(Backend::reference, DType::f64)));
}

TEST(ReferenceLlama, FloatsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(shape_of(Backend::reference, DType::f32));
  expect_golden(reference);
  expect_same_bits(see(shape_of(Backend::cpu, DType::f32)), reference);
}

TEST(ReferenceLlama, TwoTensorAndTwoDataShardsAgreeAndCpuHasTheBitsOfReference) {
  const Seen reference = see(shape_of(Backend::reference, DType::f32, 2, 2));
  expect_golden(reference);
  expect_same_bits(see(shape_of(Backend::cpu, DType::f32, 2, 2)), reference);
  // The logical mesh decides the bits: on 1 × 1 the sums go another way.
  EXPECT_FALSE(testing::bits_equal(
      "",
      "",
      reference.after3.at("layers.0.mlp.up.weight"),
      see(shape_of(Backend::cpu, DType::f32)).after3.at("layers.0.mlp.up.weight")));
}

TEST(ReferenceLlama, ASampleHasTheSameLogitsInAnyBatch) {
  testing::RigShape one_by_one = shape_of(Backend::cpu, DType::f32);
  one_by_one.batch = 1;
  const Seen together = see(shape_of(Backend::cpu, DType::f32));
  const Seen alone = see(one_by_one);
  expect_golden(alone);
  EXPECT_BITS_EQ(alone.logits, together.logits);
  EXPECT_BITS_EQ(alone.hidden[2], together.hidden[2]);
}

// A wrong network must not pass: the tolerances see a small change of one constant.
TEST(ReferenceLlama, AnotherConstantIsSeen) {
  const testing::RigShape shape = shape_of(Backend::cpu, DType::f32);
  const std::vector<double>& want = golden().io.at("logits").values;
  const auto with = [&](const std::function<void(model::LayerSpec&)>& change) {
    model::Spec spec = golden_spec();
    for (model::LayerSpec& l : spec.layers) {
      change(l);
    }
    return largest_difference(see(shape, spec).logits, want);
  };
  EXPECT_LT(with([](model::LayerSpec&) {}), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.rope_theta *= 1.01; }), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.norm_eps = 1e-3; }), 2e-5);
  EXPECT_GT(with([](model::LayerSpec& l) { l.attention_scale *= 1.001; }), 2e-5);
}

}  // namespace
}  // namespace cambium
