// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "schedule/plan_builder.hpp"
#include "schedule/schedules/schedules.hpp"

namespace cambium::schedule {

Plan plan_gpipe(const ScheduleShape& shape, int stage) {
  const auto count = static_cast<dim_t>(shape.micro_batches.size());
  PlanBuilder builder(shape, stage);
  for (dim_t m = 0; m < count; ++m) {
    builder.forward(m);
  }
  for (dim_t m = 0; m < count; ++m) {
    builder.backward(m);
  }
  return builder.finish();
}

int promise_gpipe(const ScheduleShape& shape, int /*stage*/) {
  const auto& kinds = shape.micro_batches;
  const auto training = static_cast<int>(std::ranges::count(kinds, MicroBatchKind::train));
  const bool passes_others = training < static_cast<int>(kinds.size());
  return training + (passes_others ? 1 : 0);
}

}  // namespace cambium::schedule
