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

void PlanBuilder::add(ActionKind kind, dim_t micro_batch) {
  plan_.push_back({.kind = kind, .micro_batch = micro_batch});
}

void PlanBuilder::forward(dim_t micro_batch) {
  if (stage_ > 0) {
    add(ActionKind::receive_activation, micro_batch);
  }
  add(ActionKind::forward, micro_batch);
  if (stage_ + 1 < shape_.stages) {
    add(ActionKind::send_activation, micro_batch);
  }
}

void PlanBuilder::backward(dim_t micro_batch) {
  if (shape_.micro_batches[static_cast<std::size_t>(micro_batch)] == MicroBatchKind::forward_only) {
    return;
  }
  if (stage_ + 1 < shape_.stages) {
    add(ActionKind::receive_gradient, micro_batch);
  }
  add(ActionKind::backward_input, micro_batch);
  if (stage_ > 0) {
    add(ActionKind::send_gradient, micro_batch);
  }
  add(ActionKind::backward_weight, micro_batch);
}

Plan PlanBuilder::finish() {
  const std::vector<Range> lives =
      lifetimes(plan_, static_cast<dim_t>(shape_.micro_batches.size()));
  std::vector<int> slot(lives.size(), -1);
  std::vector<int> input(lives.size(), -1);
  std::vector<dim_t> slots_busy;
  std::vector<dim_t> inputs_busy;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const auto m = static_cast<std::size_t>(plan_[i].micro_batch);
    if (slot[m] < 0) {
      slot[m] = take_lowest(slots_busy, lives[m]);
      if (plan_[i].kind == ActionKind::receive_activation) {
        // Posted while the action before still runs.
        input[m] = take_lowest(inputs_busy, {std::max<dim_t>(0, lives[m].begin - 1), lives[m].end});
      }
    }
    plan_[i].slot = slot[m];
    plan_[i].input = input[m];
  }
  return std::move(plan_);
}

std::vector<Range> lifetimes(const Plan& plan, dim_t micro_batches) {
  std::vector<Range> lives(static_cast<std::size_t>(micro_batches));
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Range& life = lives[static_cast<std::size_t>(plan[i].micro_batch)];
    if (life.size() == 0) {
      life.begin = static_cast<dim_t>(i);
    }
    life.end = static_cast<dim_t>(i) + 1;
  }
  return lives;
}

}  // namespace cambium::schedule
