// phases/threshold.hpp — the soft mask of semi-supervised training and its learned threshold. Pure,
// fp64. Source: methods.md §2: logit space; the gradient of the labelled meta loss through one
// look-ahead step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phases/state.hpp"

namespace cambium::phases {

[[nodiscard]] double logit(double probability);
[[nodiscard]] double sigmoid(double x);

// m = sigmoid((u - tau) / T) of a teacher's confidence logit u (clamped to ±logit(1 - 1e-6)).
[[nodiscard]] double soft_mask(double u, double tau, double temperature);
// dm/dtau = -(1/T) m (1 - m).
[[nodiscard]] double soft_mask_derivative(double u, double tau, double temperature);

// dL_meta/dtau = -(lr lambda / B_u) sum_i m'_i a_i, a_i = <g_meta, g_i> (head only).
[[nodiscard]] double threshold_gradient(double sum_of_products,
                                        double learning_rate,
                                        double lambda,
                                        double unlabelled);

struct ThresholdRule {
  double learning_rate = 1e-2;
  dim_t classes = 2;
  dim_t warmup_updates = 0;  // tau is frozen, its statistics are gathered
};

// One normalised, clipped step down the gradient. Frozen while it warms up, while the gradient has
// no direction
// (|mean| < 0.1 root mean square), and for a gradient that is zero or not finite. Bounds:
// [logit(1/C) + 0.1, logit(0.999)].
void update_threshold(Threshold& threshold, double gradient, const ThresholdRule& rule);

}  // namespace cambium::phases
