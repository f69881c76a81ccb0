// schedule/schedule.hpp — a pipeline schedule is data: a list of actions per stage, made by a pure
// function. Source: GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2021); backward in two acts
// as in Qi et al. 2024.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace cambium::schedule {

enum class ActionKind {
  receive_activation,
  forward,
  send_activation,
  receive_gradient,
  backward_input,  // on the critical path: the stage below waits for it
  send_gradient,
  backward_weight,  // adds into the gradients, micro-batches ascending in every schedule
};

[[nodiscard]] std::string_view name_of(ActionKind kind);

// One step of one stage. `slot` names the place where the micro-batch keeps what its backward
// needs: taken by its first action, free again after its last (backward_weight; of a forward-only
// micro-batch the forward or its send). `input` names the buffer that its activation is received
// into: a receive is posted one action ahead, while the slot's last user may still run, so inputs
// are counted apart (at most one more than slots). Both are -1 where they mean nothing.
struct Action {
  ActionKind kind = ActionKind::forward;
  dim_t micro_batch = 0;
  int slot = -1;
  int input = -1;

  bool operator==(const Action&) const = default;
};

using Plan = std::vector<Action>;

// Pseudo-label teachers and validation are forward_only: they run in the same order, and nothing is
// kept of them.
enum class MicroBatchKind { train, forward_only };

struct ScheduleShape {
  int stages = 1;
  std::vector<MicroBatchKind> micro_batches = {};  // in order
  int virtual_stages = 1;                          // chunks of layers per stage

  bool operator==(const ScheduleShape&) const = default;
};

// A shape of `count` micro-batches that all train.
[[nodiscard]] ScheduleShape train_shape(int stages, dim_t count);

// What stage `stage` of 0 … stages-1 does in one step, first action to last. The first stage
// receives no activation and sends no gradient, the last sends no activation and receives no
// gradient. Forwards run in the order of the shape. Throws Error(usage) for an unknown name (all
// names listed), for a shape that the schedule cannot do, for a stage outside the shape.
[[nodiscard]] Plan plan_stage(std::string_view schedule, const ScheduleShape& shape, int stage);

// The plans of all stages, stage 0 first.
[[nodiscard]] std::vector<Plan> plan_all_stages(std::string_view schedule,
                                                const ScheduleShape& shape);

// The names that plan_stage knows, in the order of registry.cpp.
[[nodiscard]] std::vector<std::string> schedule_names();

// The largest number of slots that the schedule may hold on this stage. Throws as plan_stage does.
[[nodiscard]] int promised_slots(std::string_view schedule, const ScheduleShape& shape, int stage);

}  // namespace cambium::schedule
