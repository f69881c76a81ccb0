// schedule/plan_builder.hpp — turns "forward of 3, backward of 1" into actions with messages, slots
// and buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "schedule/schedule.hpp"

namespace cambium::schedule {

class PlanBuilder {
 public:
  PlanBuilder(const ScheduleShape& shape, int stage) : shape_(shape), stage_(stage) {}

  // receive, forward, send, as the stage's place asks for.
  void forward(dim_t micro_batch, int chunk = 0);

  // receive, backward_input, send, backward_weight; nothing for a forward-only micro-batch.
  void backward(dim_t micro_batch, int chunk = 0);

  // Assigns slots and receive buffers (the lowest free index each) and hands the plan over.
  [[nodiscard]] Plan finish();

 private:
  void add(ActionKind kind, dim_t micro_batch, int chunk);

  const ScheduleShape& shape_;
  int stage_;
  Plan plan_;
};

// Index of an action's micro-batch and chunk among all of `micro_batches` in every chunk.
[[nodiscard]] inline std::size_t life_of(const Action& action, std::size_t micro_batches) {
  return static_cast<std::size_t>(action.chunk) * micro_batches +
         static_cast<std::size_t>(action.micro_batch);
}

// By life_of: from the first action of a micro-batch in a chunk to its last, as indices into the
// plan; [0, 0) where it does not occur.
[[nodiscard]] std::vector<Range> lifetimes(const Plan& plan, const ScheduleShape& shape);

}  // namespace cambium::schedule
