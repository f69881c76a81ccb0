// unit/optimizer/optimizer_test.cpp — the step's gradient, its norm, the clip of kept and of new
// parameters, AdamW.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "support/bits.hpp"
#include "support/rig.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using config::OptimizerConfig;
using device::Backend;
using device::DType;
using testing::Rig;
using testing::RigShape;
using testing::Tokens;
using testing::Values;

constexpr double kRate = 1e-3;
constexpr double kScale = 0.1;

double square_of(const Values& v) {
  double sum = 0;
  for (const double x : v) {
    sum += x * x;
  }
  return sum;
}

bool is_block(const std::string& name) {
  return name.find(".inserted.") != std::string::npos;
}

std::vector<RigShape> shapes() {
  return {
      {.backend = Backend::reference, .dtype = DType::f64, .tensor = 1, .data = 1},
      {.backend = Backend::reference, .dtype = DType::f64, .tensor = 2, .data = 3},
      {.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 2},
      {.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 2, .is_sharded = false}};
}

TEST(Optimizer, TheNormIsThatOfAllUniqueElements) {
  for (const bool is_tied : {true, false}) {
    for (const RigShape& shape : shapes()) {
      Rig rig(testing::tiny_spec(is_tied), shape);
      std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 2);
      const auto [loss, tail] = rig.step(testing::micro_batches(tokens, kScale), {}, kRate);
      double square = 0;
      for (const std::string& name : rig.names()) {
        square += square_of(rig.gradient(name));
      }
      EXPECT_GT(tail.norm, 0.1);
      EXPECT_CLOSE(tail.norm, std::sqrt(square), {.rtol = 1e-13});
      EXPECT_BITS_EQ(tail.norm_kept, tail.norm);
      EXPECT_EQ(tail.norm_new, 0);
    }
  }
}

// The formula of kernels/adamw.hpp in plain doubles, three steps, with and without clipping.
TEST(Optimizer, StepsAreAdamWWithDecayOnMatricesOnly) {
  for (const double clip_norm : {0.0, 0.3, 1e9}) {
    const RigShape shape{.tensor = 2, .data = 2};
    Rig rig(testing::tiny_spec(), shape);
    const OptimizerConfig c{
        .betas = {0.8, 0.97}, .eps = 1e-7, .weight_decay = 0.2, .clip_grad_norm = clip_norm};
    std::map<std::string, Values> m;
    std::map<std::string, Values> v;
    for (dim_t t = 1; t <= 3; ++t) {
      RigShape seed = shape;
      seed.seed = static_cast<std::uint64_t>(t);
      std::vector<Tokens> tokens = testing::draw_tokens(seed, rig.spec.vocabulary);
      std::map<std::string, Values> want;
      for (const std::string& name : rig.names()) {
        want[name] = rig.value(name);
      }
      const auto [loss, tail] = rig.step(testing::micro_batches(tokens, kScale), c, kRate);
      const double clip = clip_norm > 0 ? std::min(1.0, clip_norm / (tail.norm + 1e-6)) : 1;
      EXPECT_EQ(clip < 1, clip_norm == 0.3);
      for (auto& [name, w] : want) {
        const Values gradient = rig.gradient(name);
        const double decay = testing::ends_with(name, "norm.weight") ? 0 : 0.2;
        m[name].resize(w.size());
        v[name].resize(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double g = gradient[i] * clip;
          m[name][i] = 0.8 * m[name][i] + 0.2 * g;
          v[name][i] = 0.97 * v[name][i] + 0.03 * g * g;
          const double m_hat = m[name][i] / (1 - std::pow(0.8, t));
          const double v_hat = v[name][i] / (1 - std::pow(0.97, t));
          w[i] = w[i] * (1 - kRate * decay) - kRate * m_hat / (std::sqrt(v_hat) + 1e-7);
        }
        EXPECT_CLOSE(rig.value(name), w, {.rtol = 1e-12, .atol = 1e-15}) << name;
        EXPECT_CLOSE(rig.exp_avg(name), m[name], {.rtol = 1e-12, .atol = 1e-18}) << name;
        EXPECT_CLOSE(rig.exp_avg_sq(name), v[name], {.rtol = 1e-12, .atol = 1e-20}) << name;
      }
    }
  }
}

TEST(Optimizer, AnElementWithoutGradientOnlyDecays) {
  Rig rig(testing::tiny_spec(false), {});
  const Values before = rig.value("embedding.weight");
  std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary);
  std::fill(tokens[0].ids.begin(), tokens[0].ids.end(), 3);  // no other row is looked up
  (void)rig.step(testing::micro_batches(tokens, kScale), {}, kRate);
  const Values after = rig.value("embedding.weight");
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i / 12 == 3) {
      EXPECT_GT(std::abs(after[i] - before[i]), 0.5 * kRate);
    } else {
      EXPECT_EQ(after[i], before[i] * (1 - kRate * 0.1));
    }
  }
}

model::Spec grown_spec(dim_t warmup, double multiplier = 1) {
  return growth::grow(
      testing::tiny_spec(),
      {config::InsertGatedResidual{.after = "layers.0.mlp",
                                   .width = 7,
                                   .learning_rate_multiplier = multiplier,
                                   .warmup_steps = warmup},
       config::InsertLayers{
           .after = 1, .learning_rate_multiplier = multiplier, .warmup_steps = warmup}},
      5);
}

bool is_new(const std::string& name) {
  return is_block(name) || testing::begins_with(name, "layers.2.");
}

// Level F3: new parameters, however large their gradients, change no bit of the first update of a
// kept one.
TEST(Optimizer, NewParametersAreAClipGroupOfTheirOwn) {
  for (const dim_t warmup : {0, 3}) {
    for (const RigShape& shape : shapes()) {
      Rig old(testing::tiny_spec(), shape);
      Rig grown(grown_spec(warmup), shape);
      // A branch that shouts: its gate's gradient is far above the clip.
      grown.set_value("layers.0.mlp.inserted.0.b.weight", Values(12 * 7, 1000));
      std::vector<Tokens> tokens = testing::draw_tokens(shape, old.spec.vocabulary);
      const OptimizerConfig c{.clip_grad_norm = 0.5};
      const auto [old_loss, old_tail] = old.step(testing::micro_batches(tokens, kScale), c, kRate);
      const auto [loss, tail] = grown.step(testing::micro_batches(tokens, kScale), c, kRate);
      double square = 0;
      for (const std::string& name : grown.names()) {
        square += is_new(name) ? square_of(grown.gradient(name)) : 0;
      }
      EXPECT_BITS_EQ(tail.norm_kept, old_tail.norm);
      EXPECT_CLOSE(tail.norm_new, std::sqrt(square), {.rtol = 1e-13});
      EXPECT_CLOSE(tail.norm, std::hypot(tail.norm_kept, tail.norm_new), {.rtol = 1e-13});
      EXPECT_GT(tail.norm_new, 100 * tail.norm_kept);
      for (const std::string& name : old.names()) {
        EXPECT_BITS_EQ(grown.value(name), old.value(name)) << name;
        EXPECT_BITS_EQ(grown.exp_avg(name), old.exp_avg(name)) << name;
        EXPECT_BITS_EQ(grown.exp_avg_sq(name), old.exp_avg_sq(name)) << name;
      }
      const std::string gate = "layers.0.mlp.inserted.0.gate";
      Values clipped = grown.gradient(gate);
      for (double& g : clipped) {
        g *= 0.1 * 0.5 / (tail.norm_new + 1e-6);
      }
      EXPECT_CLOSE(grown.exp_avg(gate), clipped, {.rtol = 1e-5});
    }
  }
}

TEST(Optimizer, TheGroupsJoinBehindTheWarmUp) {
  Rig rig(grown_spec(3), {.tensor = 2, .data = 2});
  std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary);
  for (int update = 1; update <= 5; ++update) {
    const auto [loss, tail] = rig.step(testing::micro_batches(tokens, kScale), {}, kRate);
    EXPECT_EQ(tail.norm_new > 0, update <= 3) << update;
    EXPECT_EQ(tail.norm_kept == tail.norm, update > 3) << update;
  }
}

// Each segment has its own t. With the step count of its neighbours its first step would be
// another.
TEST(Optimizer, BiasCorrectionCountsASegmentsOwnUpdates) {
  const auto first_move = [](std::int64_t counted) {
    Rig rig(grown_spec(4, 2), {});
    rig.set_updates("", 10);
    for (const std::string& name : rig.names()) {
      if (is_new(name)) {
        rig.set_updates(name, counted);
      }
    }
    std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary);
    (void)rig.step(testing::micro_batches(tokens, kScale), {}, kRate);
    return rig.value("layers.0.mlp.inserted.0.gate");
  };
  for (const double x : first_move(0)) {
    EXPECT_NEAR(
        std::abs(x), kRate * 2 / 4, 1e-3 * kRate);  // rate × multiplier × 1/4 of the warm-up
  }
  for (const double x : first_move(10)) {
    const double wrong = 0.1 / (1 - std::pow(0.9, 11)) / std::sqrt(0.05 / (1 - std::pow(0.95, 11)));
    EXPECT_NEAR(std::abs(x), kRate * 2 * wrong, 1e-3 * kRate);
  }
}

TEST(Optimizer, EveryNewTensorMovesFromTheSecondUpdateOn) {
  Rig rig(grown_spec(3), {.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2});
  std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary);
  const OptimizerConfig no_decay{.weight_decay = 0};
  std::map<std::string, Values> start;
  for (const std::string& name : rig.names()) {
    start[name] = rig.value(name);
  }
  (void)rig.step(testing::micro_batches(tokens, kScale), no_decay, kRate);
  for (const auto& [name, before] : start) {
    const bool opens = testing::ends_with(name, ".gate") || testing::ends_with(name, "o.weight") ||
                       testing::ends_with(name, "down.weight");
    EXPECT_EQ(rig.value(name) != before, !is_new(name) || opens) << name;
  }
  (void)rig.step(testing::micro_batches(tokens, kScale), no_decay, kRate);
  for (const auto& [name, before] : start) {
    EXPECT_NE(rig.value(name), before) << name;
  }
}

TEST(Optimizer, TheTailCarriesWhatIsNotFinite) {
  Rig rig(testing::tiny_spec(), {.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2});
  std::vector<Tokens> tokens = testing::draw_tokens(rig.shape, rig.spec.vocabulary);
  (void)rig.run(testing::micro_batches(tokens, kScale));
  optimizer::StepTail tail{.flags = 5, .last_stage = {1.5, 2.5}};
  rig.runner.optimizer().reduce_norms(tail);
  EXPECT_EQ(tail.flags, 5);
  EXPECT_EQ(tail.last_stage, (std::vector<double>{1.5, 2.5}));
  EXPECT_TRUE(tail.is_finite());
  tail.last_stage[1] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(tail.is_finite());
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    (void)rig.run(testing::micro_batches(tokens, kScale));
    rig.runner.sync().gradient(*rig.store.buckets()[1]).as<float>()[3] = poison;
    optimizer::StepTail bad;
    rig.runner.optimizer().reduce_norms(bad);
    EXPECT_FALSE(bad.is_finite());
  }
}

}  // namespace
}  // namespace cambium
