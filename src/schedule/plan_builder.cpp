// SPDX-License-Identifier: Apache-2.0
#include "schedule/plan_builder.hpp"

#include <algorithm>

namespace cambium::schedule {
namespace {

// Lowest index that is free at `begin`; the interval then holds it up to `end`.
int take_lowest(std::vector<dim_t>& busy_until, Range interval) {
  for (std::size_t i = 0; i < busy_until.size(); ++i) {
    if (busy_until[i] <= interval.begin) {
      busy_until[i] = interval.end;
      return static_cast<int>(i);
    }
  }
  busy_until.push_back(interval.end);
  return static_cast<int>(busy_until.size()) - 1;
}

}  // namespace

void PlanBuilder::add(ActionKind kind, dim_t micro_batch, int chunk) {
  plan_.push_back({.kind = kind, .micro_batch = micro_batch, .chunk = chunk});
}

void PlanBuilder::forward(dim_t micro_batch, int chunk) {
  if (!shape_.is_first(stage_, chunk)) {
    add(ActionKind::receive_activation, micro_batch, chunk);
  }
  add(ActionKind::forward, micro_batch, chunk);
  if (!shape_.is_last(stage_, chunk)) {
    add(ActionKind::send_activation, micro_batch, chunk);
  }
}

void PlanBuilder::backward(dim_t micro_batch, int chunk) {
  if (shape_.micro_batches[static_cast<std::size_t>(micro_batch)] == MicroBatchKind::forward_only) {
    return;
  }
  if (!shape_.is_last(stage_, chunk)) {
    add(ActionKind::receive_gradient, micro_batch, chunk);
  }
  add(ActionKind::backward_input, micro_batch, chunk);
  if (!shape_.is_first(stage_, chunk)) {
    add(ActionKind::send_gradient, micro_batch, chunk);
  }
  add(ActionKind::backward_weight, micro_batch, chunk);
}

Plan PlanBuilder::finish() {
  const std::vector<Range> lives = lifetimes(plan_, shape_);
  std::vector<int> slot(lives.size(), -1);
  std::vector<int> input(lives.size(), -1);
  std::vector<std::vector<dim_t>> slots_busy(static_cast<std::size_t>(shape_.virtual_stages));
  std::vector<dim_t> inputs_busy;
  dim_t last_receive = 0;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const std::size_t m = life_of(plan_[i], shape_.micro_batches.size());
    if (slot[m] < 0) {
      slot[m] = take_lowest(slots_busy[static_cast<std::size_t>(plan_[i].chunk)], lives[m]);
      if (plan_[i].kind == ActionKind::receive_activation) {
        // Posted when the receive before it starts.
        input[m] = take_lowest(inputs_busy, {last_receive, lives[m].end});
      }
    }
    if (is_receive(plan_[i].kind)) {
      last_receive = static_cast<dim_t>(i);
    }
    plan_[i].slot = slot[m];
    plan_[i].input = input[m];
  }
  return std::move(plan_);
}

std::vector<Range> lifetimes(const Plan& plan, const ScheduleShape& shape) {
  const std::size_t count = shape.micro_batches.size();
  std::vector<Range> lives(count * static_cast<std::size_t>(shape.virtual_stages));
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Range& life = lives[life_of(plan[i], count)];
    if (life.size() == 0) {
      life.begin = static_cast<dim_t>(i);
    }
    life.end = static_cast<dim_t>(i) + 1;
  }
  return lives;
}

}  // namespace cambium::schedule
