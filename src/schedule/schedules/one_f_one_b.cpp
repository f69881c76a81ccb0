// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/plan_builder.hpp"
#include "schedule/schedules/schedules.hpp"

namespace cambium::schedule {

// The backward of micro-batch j comes after the forward of j + (stages - stage - 1), or after the
// last forward: by then the wave of j has been at the last stage and is back. Forward-only
// micro-batches are waves without a way back; they keep their place, so that the stages stay in
// step and no stage ever holds more than stages - stage.
Plan plan_1f1b(const ScheduleShape& shape, int stage) {
  const auto count = static_cast<dim_t>(shape.micro_batches.size());
  const dim_t ahead = shape.stages - stage - 1;
  PlanBuilder builder(shape, stage);
  for (dim_t k = 0; k < count; ++k) {
    builder.forward(k);
    if (k >= ahead) {
      builder.backward(k - ahead);
    }
  }
  for (dim_t j = std::max<dim_t>(0, count - ahead); j < count; ++j) {
    builder.backward(j);
  }
  return builder.finish();
}

int promise_1f1b(const ScheduleShape& shape, int stage) {
  return std::min(shape.stages - stage, static_cast<int>(shape.micro_batches.size()));
}

}  // namespace cambium::schedule
