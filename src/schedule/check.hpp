// schedule/check.hpp — what every plan must keep, whichever schedule made it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "schedule/schedule.hpp"

namespace cambium::schedule {

// Slots of a chunk, and receive buffers, that a plan needs: one more than the highest index. 0 for
// an empty plan. Without a chunk: the slots of all chunks.
[[nodiscard]] int peak_slots(const Plan& plan, int chunk);
[[nodiscard]] int peak_slots(const Plan& plan);
[[nodiscard]] int peak_inputs(const Plan& plan);

// One plan against its shape: each micro-batch once per chunk and act that its kind and the virtual
// stage's place ask for, in the order receive < forward < send and receive < backward_input < send
// < backward_weight; of each chunk forwards in the shape's order, backward_input and
// backward_weight ascending; no slot and no receive buffer used by two micro-batches at once.
// Throws Error(bug), naming stage and action.
void check_plan(const Plan& plan, const ScheduleShape& shape, int stage);

// All stages: check_plan for each, and on each boundary the receives are in the order of the sends.
void check_plans(const std::vector<Plan>& plans, const ScheduleShape& shape);

}  // namespace cambium::schedule
