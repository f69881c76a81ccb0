// SPDX-License-Identifier: Apache-2.0
#include "optimizer/learning_rate.hpp"

#include <algorithm>
#include <cmath>

namespace cambium::optimizer {

double learning_rate_at(const config::LearningRateConfig& c, dim_t step, dim_t steps) {
  step = std::clamp<dim_t>(step, 1, std::max<dim_t>(steps, 1));
  if (step < c.warmup_steps) {
    return c.peak * static_cast<double>(step) / static_cast<double>(c.warmup_steps);
  }
  // The part behind the warm-up, from 0 at its first update to 1 at the phase's last.
  const auto progress = [&](dim_t begin) {
    const dim_t length = steps - begin;
    return length <= 0
               ? 1.0
               : std::clamp(
                     static_cast<double>(step - begin) / static_cast<double>(length), 0.0, 1.0);
  };
  const dim_t begin = std::max<dim_t>(c.warmup_steps, 1);
  const double span = c.peak - c.final;
  switch (c.kind) {
    case config::LearningRateKind::constant:
      return c.peak;
    case config::LearningRateKind::linear:
      return steps == begin ? c.peak : c.peak - span * progress(begin);
    case config::LearningRateKind::cosine:
      return steps == begin
                 ? c.peak
                 : c.final + span * 0.5 * (1 + std::cos(3.14159265358979323846 * progress(begin)));
    case config::LearningRateKind::wsd: {
      const dim_t decay = std::max(steps - c.decay_steps, begin);
      return c.decay_steps <= 0 || step <= decay ? c.peak : c.peak - span * progress(decay);
    }
  }
  return c.peak;
}

double birth_warmup(dim_t update, dim_t warmup_steps) {
  return warmup_steps <= 0
             ? 1.0
             : std::min(1.0, static_cast<double>(update) / static_cast<double>(warmup_steps));
}

}  // namespace cambium::optimizer
