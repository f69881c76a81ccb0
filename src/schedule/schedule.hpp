// schedule/schedule.hpp — a pipeline schedule is data: a list of actions per stage, made by a pure
// function. Source: GPipe (Huang et al. 2019), 1F1B and interleaved 1F1B (Narayanan et al. 2021);
// backward in two acts as in Qi et al. 2024.
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
// into: the next receive is always posted, while the slot's last user may still run, so inputs are
// counted apart. Both are -1 where they mean nothing.
struct Action {
  ActionKind kind = ActionKind::forward;
  dim_t micro_batch = 0;
  int slot = -1;
  int input = -1;
  int chunk = 0;  // of the stage's chunks of layers; slots are counted within it

  bool operator==(const Action&) const = default;
};

using Plan = std::vector<Action>;

[[nodiscard]] constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_activation || kind == ActionKind::receive_gradient;
}

// The rule of engine and simulator: when an action starts, its own receive and the next one of the
// plan are posted. Index of that next one, or the plan's size.
[[nodiscard]] inline std::size_t next_receive(const Plan& plan, std::size_t action) {
  do {
    ++action;
  } while (action < plan.size() && !is_receive(plan[action].kind));
  return action;
}

// Pseudo-label teachers and validation are forward_only: they run in the same order, and nothing is
// kept of them.
enum class MicroBatchKind { train, forward_only };

struct ScheduleShape {
  int stages = 1;
  std::vector<MicroBatchKind> micro_batches = {};  // in order
  // Chunks of layers per stage. Chunk c of stage s is virtual stage c * stages + s: an activation
  // goes from the last stage's chunk c to the first stage's chunk c + 1.
  int virtual_stages = 1;

  [[nodiscard]] bool is_first(int stage, int chunk) const {
    return stage == 0 && chunk == 0;
  }

  [[nodiscard]] bool is_last(int stage, int chunk) const {
    return stage + 1 == stages && chunk + 1 == virtual_stages;
  }

  bool operator==(const ScheduleShape&) const = default;
};

// A shape of `count` micro-batches that all train.
[[nodiscard]] ScheduleShape train_shape(int stages, dim_t count, int virtual_stages = 1);

// What stage `stage` of 0 … stages-1 does in one step, first action to last. The first virtual
// stage receives no activation and sends no gradient, the last sends no activation and receives no
// gradient. Forwards of a chunk run in the order of the shape. Throws Error(usage) for an unknown
// name (all names listed), for a shape that the schedule cannot do, for a stage outside the shape.
[[nodiscard]] Plan plan_stage(std::string_view schedule, const ScheduleShape& shape, int stage);

// The plans of all stages, stage 0 first.
[[nodiscard]] std::vector<Plan> plan_all_stages(std::string_view schedule,
                                                const ScheduleShape& shape);

// The names that plan_stage knows, in the order of registry.cpp.
[[nodiscard]] std::vector<std::string> schedule_names();

// The largest number of slots that the schedule may hold on this stage, all chunks together.
// Throws as plan_stage does.
[[nodiscard]] int promised_slots(std::string_view schedule, const ScheduleShape& shape, int stage);

}  // namespace cambium::schedule
