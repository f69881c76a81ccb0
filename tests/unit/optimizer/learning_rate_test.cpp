// unit/optimizer/learning_rate_test.cpp — the learning rate as a function of the step, at its edges
// too.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/learning_rate.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace cambium {
namespace {

using config::LearningRateConfig;
using config::LearningRateKind;
using optimizer::learning_rate_at;

constexpr LearningRateKind kKinds[] = {LearningRateKind::constant,
                                       LearningRateKind::linear,
                                       LearningRateKind::cosine,
                                       LearningRateKind::wsd};

TEST(LearningRate, WarmUpIsLinearAndReachesThePeak) {
  for (const LearningRateKind kind : kKinds) {
    const LearningRateConfig c{
        .kind = kind, .peak = 1e-3, .warmup_steps = 4, .decay_steps = 5, .final = 1e-4};
    EXPECT_DOUBLE_EQ(learning_rate_at(c, 1, 100), 0.25e-3);
    EXPECT_DOUBLE_EQ(learning_rate_at(c, 3, 100), 0.75e-3);
    EXPECT_DOUBLE_EQ(learning_rate_at(c, 4, 100), 1e-3);
  }
}

TEST(LearningRate, FollowsItsCurve) {
  const auto at = [](LearningRateKind kind, dim_t step) {
    return learning_rate_at(
        {.kind = kind, .peak = 1, .warmup_steps = 20, .decay_steps = 40, .final = 0.2}, step, 120);
  };
  EXPECT_EQ(at(LearningRateKind::constant, 120), 1);
  EXPECT_DOUBLE_EQ(at(LearningRateKind::linear, 70), 0.6);  // half of the way from 20 to 120
  EXPECT_DOUBLE_EQ(at(LearningRateKind::linear, 120), 0.2);
  EXPECT_DOUBLE_EQ(at(LearningRateKind::cosine, 70), 0.6);
  EXPECT_DOUBLE_EQ(at(LearningRateKind::cosine, 45), 0.2 + 0.8 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(at(LearningRateKind::cosine, 120), 0.2);
  EXPECT_EQ(at(LearningRateKind::wsd, 80), 1);  // 40 steps before the end
  EXPECT_DOUBLE_EQ(at(LearningRateKind::wsd, 100), 0.6);
  EXPECT_DOUBLE_EQ(at(LearningRateKind::wsd, 120), 0.2);
}

// Warm-up 0, 1, = and > the phase; decay 0, = and > the phase; one step; rate 0; final above the
// peak; past the end.
TEST(LearningRateFailures, N04EveryEdgeIsFiniteAndNotNegative) {
  for (const LearningRateKind kind : kKinds) {
    for (const dim_t steps : {1, 2, 10}) {
      for (const dim_t warmup : {0, 1, 2, 9, 10, 11, 1000}) {
        for (const dim_t decay : {0, 1, 9, 10, 11, 1000}) {
          for (const double peak : {0.0, 1e-3}) {
            for (const double final : {0.0, 1e-4, 1e-3, 1.0}) {
              const LearningRateConfig c{.kind = kind,
                                         .peak = peak,
                                         .warmup_steps = warmup,
                                         .decay_steps = decay,
                                         .final = final};
              for (dim_t step = -1; step <= steps + 3; ++step) {
                const double rate = learning_rate_at(c, step, steps);
                ASSERT_TRUE(std::isfinite(rate) && rate >= 0 && rate <= std::max(peak, final))
                    << "kind " << static_cast<int>(kind) << " step " << step << " of " << steps
                    << " warm-up " << warmup << " decay " << decay << ": " << rate;
              }
            }
          }
        }
      }
    }
  }
}

TEST(LearningRateFailures, N04NoWarmUpStartsAtThePeak) {
  for (const LearningRateKind kind : kKinds) {
    for (const dim_t warmup : {0, 1}) {
      const LearningRateConfig c{
          .kind = kind, .peak = 1e-3, .warmup_steps = warmup, .decay_steps = 5};
      EXPECT_EQ(learning_rate_at(c, 1, 100), 1e-3) << static_cast<int>(kind);
    }
  }
}

TEST(LearningRateFailures, N04AWarmUpAsLongAsThePhaseEndsAtThePeak) {
  for (const LearningRateKind kind : kKinds) {
    const LearningRateConfig c{.kind = kind, .peak = 1e-3, .warmup_steps = 10};
    EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 10), 0.9e-3) << static_cast<int>(kind);
    EXPECT_EQ(learning_rate_at(c, 10, 10), 1e-3) << static_cast<int>(kind);
    const LearningRateConfig longer{.kind = kind, .peak = 1e-3, .warmup_steps = 20};
    EXPECT_DOUBLE_EQ(learning_rate_at(longer, 10, 10), 0.5e-3) << static_cast<int>(kind);
  }
}

TEST(LearningRateFailures, N04PastTheEndItStays) {
  for (const LearningRateKind kind : kKinds) {
    const LearningRateConfig c{
        .kind = kind, .peak = 1e-3, .warmup_steps = 2, .decay_steps = 5, .final = 1e-5};
    EXPECT_EQ(learning_rate_at(c, 11, 10), learning_rate_at(c, 10, 10)) << static_cast<int>(kind);
    EXPECT_EQ(learning_rate_at(c, 100000, 10), learning_rate_at(c, 10, 10))
        << static_cast<int>(kind);
  }
}

TEST(LearningRate, NewParametersWarmUpByThemselves) {
  EXPECT_EQ(optimizer::birth_warmup(1, 0), 1);
  EXPECT_EQ(optimizer::birth_warmup(1, 20), 1.0 / 20);  // not 0: the first update moves
  EXPECT_EQ(optimizer::birth_warmup(20, 20), 1);
  EXPECT_EQ(optimizer::birth_warmup(21, 20), 1);
}

}  // namespace
}  // namespace cambium
