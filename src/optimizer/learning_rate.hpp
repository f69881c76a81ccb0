// optimizer/learning_rate.hpp — the learning rate is a pure function of the step within its phase:
// nothing to restore.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"
#include "config/optimizer_config.hpp"

namespace cambium::optimizer {

// Rate of update `step` (1 … steps) of a phase. Warm-up is linear and reaches the peak at update
// warmup_steps; a warm-up of 0 or 1 starts at the peak. Finite and ≥ 0 for every input; past the
// end it stays at the last value.
[[nodiscard]] double learning_rate_at(const config::LearningRateConfig& config,
                                      dim_t step,
                                      dim_t steps);

// Factor of new parameters' rate at their own update k (1, 2, …): min(1, k / warmup_steps).
[[nodiscard]] double birth_warmup(dim_t update, dim_t warmup_steps);

}  // namespace cambium::optimizer
