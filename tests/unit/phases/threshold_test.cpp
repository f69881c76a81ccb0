// unit/phases/threshold_test.cpp — the soft mask, its derivative, and the rule that moves the
// threshold (methods.md §2.1, 2.9).
// SPDX-License-Identifier: Apache-2.0
#include "phases/threshold.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace cambium {
namespace {

using phases::logit;
using phases::sigmoid;
using phases::Threshold;
using phases::ThresholdRule;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Threshold, IsStoredAsALogit) {
  EXPECT_NEAR(logit(0.7), 0.8473, 1e-4);
  for (const double p : {1e-5, 0.1, 0.5, 0.7, 0.999}) {
    EXPECT_NEAR(sigmoid(logit(p)), p, 1e-15);
  }
  EXPECT_TRUE(std::isfinite(logit(0)));
  EXPECT_NEAR(logit(1), -logit(0), 1e-9);  // clamped, not infinite
}

TEST(SoftMask, IsHalfAtTheThresholdAndRises) {
  for (const double temperature : {0.05, 0.3, 1.0}) {
    EXPECT_EQ(phases::soft_mask(0.85, 0.85, temperature), 0.5);
    EXPECT_GT(phases::soft_mask(1.85, 0.85, temperature), 0.7);
    EXPECT_LT(phases::soft_mask(-0.15, 0.85, temperature), 0.3);
  }
  EXPECT_LT(phases::soft_mask(2, 1, 1),
            phases::soft_mask(2, 1, 0.3));  // a lower temperature is a harder mask
  EXPECT_TRUE(std::isfinite(phases::soft_mask(kInfinity, 0, 0.3)));
  EXPECT_EQ(phases::soft_mask(kInfinity, 0, 0.3), phases::soft_mask(logit(1), 0, 0.3));
}

TEST(SoftMask, DerivativeAgreesWithDifferences) {
  constexpr double h = 1e-6;
  for (const double temperature : {0.05, 0.3, 1.0}) {
    for (const double tau : {-1.0, 0.0, 0.8473, 5.0}) {
      for (const double u : {-20.0, -1.1, 0.0, 0.8, 0.9, 6.0, kInfinity}) {
        const double want = (phases::soft_mask(u, tau + h, temperature) -
                             phases::soft_mask(u, tau - h, temperature)) /
                            (2 * h);
        EXPECT_NEAR(phases::soft_mask_derivative(u, tau, temperature), want, 1e-8)
            << u << " " << tau;
        EXPECT_LE(phases::soft_mask_derivative(u, tau, temperature), 0);
      }
    }
  }
}

TEST(ThresholdGradient, IsTheFormula) {
  EXPECT_DOUBLE_EQ(phases::threshold_gradient(-4, 1e-3, 0.5, 8), 1e-3 * 0.5 / 8 * 4);
  EXPECT_EQ(phases::threshold_gradient(-4, 1e-3, 0.5, 0), 0);  // no unlabelled text
}

Threshold after(double tau, const std::vector<double>& gradients, const ThresholdRule& rule) {
  Threshold t{.tau = tau};
  for (const double g : gradients) {
    phases::update_threshold(t, g, rule);
  }
  return t;
}

TEST(ThresholdRule, StepsDownTheGradientWhateverItsScale) {
  const ThresholdRule rule{.learning_rate = 0.02, .classes = 4};
  for (const double scale : {1e-12, 1.0, 1e12}) {
    EXPECT_NEAR(after(1, {scale}, rule).tau, 0.98, 1e-12);
    EXPECT_NEAR(after(1, {-scale}, rule).tau, 1.02, 1e-12);
    EXPECT_NEAR(after(1, {scale, scale, scale}, rule).tau, 0.94, 1e-12);
  }
}

TEST(ThresholdRule, ClipsAStep) {
  EXPECT_NEAR(after(1, {1}, {.learning_rate = 5, .classes = 4}).tau, 0.9, 1e-12);
  EXPECT_NEAR(after(1, {-1}, {.learning_rate = 5, .classes = 4}).tau, 1.1, 1e-12);
}

TEST(ThresholdRule, StaysInsideItsBounds) {
  const std::vector<double> down(1000, 1.0);
  const std::vector<double> up(1000, -1.0);
  for (const dim_t classes : {2, 77}) {
    const ThresholdRule rule{.learning_rate = 0.1, .classes = classes};
    EXPECT_DOUBLE_EQ(after(0.5, down, rule).tau, logit(1.0 / static_cast<double>(classes)) + 0.1);
    EXPECT_DOUBLE_EQ(after(0.5, up, rule).tau, logit(0.999));
  }
}

TEST(ThresholdRule, SkipsAGradientThatSaysNothing) {
  const Threshold before = after(1, {1, 1}, {.classes = 4});
  for (const double g :
       {0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    Threshold t = before;
    phases::update_threshold(t, g, {.classes = 4});
    EXPECT_EQ(t, before) << g;
  }
}

TEST(ThresholdRule, IsFrozenWhileItWarmsUpButLooks) {
  const ThresholdRule rule{.learning_rate = 0.02, .classes = 4, .warmup_updates = 3};
  const Threshold t = after(1, {2, 2, 2}, rule);
  EXPECT_EQ(t.tau, 1);
  EXPECT_EQ(t.updates, 3);
  EXPECT_GT(t.mean_square, 0);
  EXPECT_NEAR(after(1, {2, 2, 2, 2}, rule).tau, 0.98, 1e-12);
}

TEST(ThresholdRule, IsFrozenWhileTheGradientHasNoDirection) {
  const ThresholdRule rule{.learning_rate = 0.02, .classes = 4, .warmup_updates = 50};
  std::vector<double> noise;
  for (int i = 0; i < 50; ++i) {
    noise.push_back(i % 2 == 0 ? 1 : -1);
  }
  Threshold t = after(1, noise, rule);  // the running mean is ±0.053 of the root mean square
  phases::update_threshold(t, 1, rule);
  EXPECT_EQ(t.tau, 1);
  phases::update_threshold(t, 1, rule);  // twice the same sign: a direction
  EXPECT_LT(t.tau, 1);
}

}  // namespace
}  // namespace cambium
