// SPDX-License-Identifier: Apache-2.0
#include "phases/threshold.hpp"

#include <algorithm>
#include <cmath>

namespace cambium::phases {
namespace {

constexpr double kDecay = 0.9;  // of the running means
constexpr double kLargestStep = 0.1;
constexpr double kDirection = 0.1;

}  // namespace

double logit(double probability) {
  const double p = std::clamp(probability, 1e-6, 1 - 1e-6);
  return std::log(p / (1 - p));
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double soft_mask(double u, double tau, double temperature) {
  const double limit = logit(1);
  return sigmoid((std::clamp(u, -limit, limit) - tau) / temperature);
}

double soft_mask_derivative(double u, double tau, double temperature) {
  const double m = soft_mask(u, tau, temperature);
  return -m * (1 - m) / temperature;
}

double threshold_gradient(double sum_of_products,
                          double learning_rate,
                          double lambda,
                          double unlabelled) {
  return unlabelled > 0 ? -learning_rate * lambda / unlabelled * sum_of_products : 0;
}

void update_threshold(Threshold& t, double gradient, const ThresholdRule& rule) {
  if (!std::isfinite(gradient) || gradient == 0) {
    return;
  }
  ++t.updates;
  t.mean = kDecay * t.mean + (1 - kDecay) * gradient;
  t.mean_square = kDecay * t.mean_square + (1 - kDecay) * gradient * gradient;
  const double correction = 1 - std::pow(kDecay, static_cast<double>(t.updates));
  const double root = std::sqrt(t.mean_square / correction);
  if (t.updates <= rule.warmup_updates || std::abs(t.mean / correction) < kDirection * root) {
    return;
  }
  const double step =
      std::clamp(rule.learning_rate * gradient / (root + 1e-300), -kLargestStep, kLargestStep);
  const double low = logit(1.0 / static_cast<double>(rule.classes)) + 0.1;
  t.tau = std::clamp(t.tau - step, low, logit(0.999));
}

}  // namespace cambium::phases
