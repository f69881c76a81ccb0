// unit/engine/finite_differences_test.cpp — every hand-written derivative, through the whole
// network, against central differences of the loss in fp64 on `reference`.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

#include "support/rig.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using testing::Rig;
using testing::Tokens;

constexpr double kStep = 1e-5;

// Gains around 1, gates and matrices around 0; nothing is at a special value, and every block and
// layer is open.
void randomise(Rig& rig) {
  std::uint64_t stream = 0;
  for (const std::string& name : rig.names()) {
    const RandomStream random(rig.shape.seed, Purpose::probe, 99, stream++);
    const bool is_gain = testing::ends_with(name, "norm.weight");
    Rig::Values values = rig.value(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = (is_gain ? 1 : 0) + 0.3 * random.normal_at(i);
    }
    rig.set_value(name, values);
  }
  rig.set_updates("", 1);
}

// A few coordinates of every parameter, and one direction in which all move at once.
void expect_derivatives(Rig& rig, const std::function<double()>& loss) {
  std::map<std::string, Rig::Values> start;
  std::map<std::string, Rig::Values> direction;
  double slope = 0;
  std::uint64_t stream = 0;
  for (const std::string& name : rig.names()) {
    start[name] = rig.value(name);
    const Rig::Values gradient = rig.gradient(name);
    const RandomStream random(rig.shape.seed, Purpose::probe, 98, stream++);
    double largest = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      direction[name].push_back(random.normal_at(i));
      slope += direction[name].back() * gradient[i];
      largest = std::max(largest, std::abs(gradient[i]));
    }
    // A constant on all keys moves no softmax: this derivative is zero.
    if (!testing::ends_with(name, "attention.k.bias")) {
      EXPECT_GT(largest, 1e-5) << name << ": nothing to compare";
    }
    const std::size_t count = std::min<std::size_t>(gradient.size(), 7);
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = (k * gradient.size() + k) / count % gradient.size();
      Rig::Values moved = start[name];
      moved[i] = start[name][i] + kStep;
      rig.set_value(name, moved);
      const double above = loss();
      moved[i] = start[name][i] - kStep;
      rig.set_value(name, moved);
      const double below = loss();
      EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-8 + 1e-6 * std::abs(gradient[i]))
          << name << "[" << i << "]";
    }
    rig.set_value(name, start[name]);
  }
  const auto at = [&](double step) {
    for (const auto& [name, values] : start) {
      Rig::Values moved = values;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] += step * direction[name][i];
      }
      rig.set_value(name, moved);
    }
    return loss();
  };
  EXPECT_NEAR((at(1e-6) - at(-1e-6)) / 2e-6, slope, 1e-7 + 1e-6 * std::abs(slope))
      << "all parameters at once";
  for (const auto& [name, values] : start) {
    rig.set_value(name, values);
  }
}

struct Case {
  const char* name;
  bool is_tied;
  int tensor;
  int data;
  dim_t per_shard;
  std::vector<std::string> modules;
  bool is_gpt2 = false;
  model::Biases biases = model::Biases::none;  // of a Llama
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class FiniteDifferences : public ::testing::TestWithParam<Case> {};

TEST_P(FiniteDifferences, AgreeWithEveryGradientOfTheLanguageModel) {
  const Case& c = GetParam();
  model::Spec plain =
      c.is_gpt2 ? testing::tiny_gpt2_spec(c.is_tied) : testing::tiny_spec(c.is_tied);
  for (model::LayerSpec& l : plain.layers) {
    l.biases = c.is_gpt2 ? l.biases : c.biases;
  }
  Rig rig(testing::with_blocks(plain, c.modules), {.tensor = c.tensor, .data = c.data});
  randomise(rig);
  std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary, c.per_shard);
  tokens[0].targets[1] = tokens[0].targets[6] = -100;
  double valid = 0;
  for (const Tokens& t : tokens) {
    valid += static_cast<double>(
        std::count_if(t.targets.begin(), t.targets.end(), [](auto v) { return v >= 0; }));
  }
  (void)rig.run(testing::micro_batches(tokens, 1 / valid));
  const std::vector<engine::MicroBatch> probe =
      testing::micro_batches(tokens, 0, layers::Mode::forward_only);
  expect_derivatives(rig, [&] { return rig.run(probe) / valid; });
}

INSTANTIATE_TEST_SUITE_P(
    Networks,
    FiniteDifferences,
    ::testing::Values(Case{"TiedPlain", true, 1, 1, 1, {}},
                      Case{"UntiedPlainTwoTensorShards", false, 2, 1, 1, {}},
                      // vector, scalar, vector, scalar gates
                      Case{"TiedBlocks",
                           true,
                           1,
                           1,
                           1,
                           {"layers.0.mlp", "layers.1.attention_norm", "embedding", "norm"}},
                      Case{"UntiedBlocksTwoTensorShards",
                           false,
                           2,
                           1,
                           1,
                           {"norm", "embedding", "layers.1.mlp_norm", "layers.0.attention"}},
                      Case{"TiedTwoByTwoTwoMicroBatches",
                           true,
                           2,
                           2,
                           2,
                           {"layers.0.attention_norm", "layers.1.mlp"}},
                      Case{"UntiedTwoBlocksInOnePlaceThreeDataShards",
                           false,
                           2,
                           3,
                           1,
                           {"layers.0.mlp",
                            "layers.0.mlp",
                            "layers.1.attention_norm",
                            "layers.1.attention_norm",
                            "embedding",
                            "embedding"}},
                      Case{"LlamaWithBiasesOfQkv", true, 2, 1, 1, {}, false, model::Biases::qkv},
                      Case{"Gpt2Tied", true, 1, 1, 1, {}, true},
                      Case{"Gpt2UntiedTwoByTwoTwoMicroBatches", false, 2, 2, 2, {}, true},
                      Case{"Gpt2TiedBlocksFourTensorShards",
                           true,
                           4,
                           1,
                           1,
                           {"layers.0.attention_norm", "layers.1.mlp", "embedding", "norm"},
                           true}),
    [](const auto& entry) { return entry.param.name; });

// Weighted cross-entropy of each sample's last token.
class WeightedTask : public engine::ClassifyTask {
 public:
  WeightedTask(engine::Engine& engine,
               std::vector<std::int32_t> labels,
               std::vector<double> weights)
      : engine_(engine), labels_(std::move(labels)), weights_(std::move(weights)) {}

  void run(std::size_t, const engine::MicroBatch& batch, device::View h, device::View dh) override {
    layers::ClassifierHead& head = *engine_.model().classifier;
    (void)head.score(h, batch.last_row);
    const std::vector<double> losses = head.losses(labels_);
    for (std::size_t b = 0; b < losses.size(); ++b) {
      loss += weights_[b] * losses[b];
    }
    if (batch.mode == layers::Mode::forward_only) {
      return;
    }
    std::vector<device::View> gradients;
    for (dim_t i = 0; i < engine_.model().context.shards().size(); ++i) {
      gradients.push_back(head.logits_gradient(i, labels_, weights_, 1));
    }
    head.backward(gradients, dh);
  }

  double loss = 0;

 private:
  engine::Engine& engine_;
  std::vector<std::int32_t> labels_;
  std::vector<double> weights_;
};

TEST(ClassifierHead, AgreesWithFiniteDifferencesThroughTheNetwork) {
  for (const int tensor : {1, 2}) {
    model::Spec spec = testing::with_blocks(testing::tiny_spec(), {"layers.1.mlp", "norm"});
    model::add_classifier(spec, 5, 1);
    Rig rig(spec, {.tensor = tensor, .batch = 3});
    randomise(rig);
    std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, spec.vocabulary);
    WeightedTask task(rig.runner, {4, 0, 2}, {0.5, 1.25, 0.125});
    engine::PassHooks hooks;
    hooks.classify = &task;
    const auto batches = [&](layers::Mode mode) {
      std::vector<engine::MicroBatch> list = testing::micro_batches(tokens, 0, mode);
      list[0].task = engine::Task::classify;
      list[0].last_row = {4 * 3 + 0, 2 * 3 + 1, 0 * 3 + 2};  // texts of lengths 5, 3 and 1
      return list;
    };
    (void)rig.run(batches(layers::Mode::train), hooks);
    expect_derivatives(rig, [&] {
      task.loss = 0;
      (void)rig.run(batches(layers::Mode::forward_only), hooks);
      return task.loss;
    });
  }
}

}  // namespace
}  // namespace cambium
