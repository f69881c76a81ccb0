// SPDX-License-Identifier: Apache-2.0
#include "schedule/check.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "base/error.hpp"
#include "schedule/plan_builder.hpp"

namespace cambium::schedule {
namespace {

constexpr std::size_t kKinds = 7;

[[noreturn]] void refuse(int stage, std::size_t index, const std::string& what) {
  throw Error(Code::bug, fmt::format("schedule: stage {} action {}: {}", stage, index, what));
}

// Which acts a micro-batch has on a stage.
std::array<bool, kKinds> expected_acts(const ScheduleShape& shape, int stage, MicroBatchKind kind) {
  const bool first = stage == 0;
  const bool last = stage + 1 == shape.stages;
  const bool trains = kind == MicroBatchKind::train;
  std::array<bool, kKinds> acts{};
  const auto set = [&](ActionKind act, bool value) { acts[static_cast<std::size_t>(act)] = value; };
  set(ActionKind::receive_activation, !first);
  set(ActionKind::forward, true);
  set(ActionKind::send_activation, !last);
  set(ActionKind::receive_gradient, trains && !last);
  set(ActionKind::backward_input, trains);
  set(ActionKind::send_gradient, trains && !first);
  set(ActionKind::backward_weight, trains);
  return acts;
}

// Each act once, and the acts of one micro-batch in the order of ActionKind, which is the order of
// their dependence.
void check_acts(const Plan& plan, const ScheduleShape& shape, int stage) {
  std::vector<std::array<bool, kKinds>> done(shape.micro_batches.size());
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Action& action = plan[i];
    if (action.micro_batch < 0 || action.micro_batch >= static_cast<dim_t>(done.size())) {
      refuse(stage, i, fmt::format("micro-batch {} is not in the shape", action.micro_batch));
    }
    auto& acts = done[static_cast<std::size_t>(action.micro_batch)];
    const auto kind = static_cast<std::size_t>(action.kind);
    if (std::any_of(acts.begin() + static_cast<std::ptrdiff_t>(kind), acts.end(), [](bool d) {
          return d;
        })) {
      refuse(stage,
             i,
             fmt::format("{} of micro-batch {} comes twice or too late",
                         name_of(action.kind),
                         action.micro_batch));
    }
    acts[kind] = true;
  }
  for (std::size_t m = 0; m < done.size(); ++m) {
    if (done[m] != expected_acts(shape, stage, shape.micro_batches[m])) {
      refuse(stage, plan.size(), fmt::format("micro-batch {} lacks an act or has one too many", m));
    }
  }
}

void check_ascending(const Plan& plan, int stage, ActionKind kind) {
  dim_t last = -1;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].kind != kind) {
      continue;
    }
    if (plan[i].micro_batch <= last) {
      refuse(stage,
             i,
             fmt::format("{} of micro-batch {} after {}: expected ascending",
                         name_of(kind),
                         plan[i].micro_batch,
                         last));
    }
    last = plan[i].micro_batch;
  }
}

// A place is one micro-batch's from its first action (`early` actions before it, for receives) to
// its last.
void check_places(
    const Plan& plan, const std::vector<Range>& lives, int stage, int Action::*place, dim_t early) {
  std::vector<dim_t> owner;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Action& action = plan[i];
    const int at = action.*place;
    if (at < 0) {
      continue;
    }
    const auto index = static_cast<std::size_t>(at);
    if (index >= owner.size()) {
      owner.resize(index + 1, -1);
    }
    const Range life = lives[static_cast<std::size_t>(action.micro_batch)];
    const dim_t previous = owner[index];
    if (previous >= 0 && previous != action.micro_batch &&
        lives[static_cast<std::size_t>(previous)].end > std::max<dim_t>(0, life.begin - early)) {
      refuse(
          stage,
          i,
          fmt::format(
              "place {} of micro-batch {} is still held by {}", at, action.micro_batch, previous));
    }
    owner[index] = action.micro_batch;
  }
}

void check_assigned(const Plan& plan, int stage) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].slot < 0 || (plan[i].input < 0) != (stage == 0)) {
      refuse(stage, i, "slot or receive buffer is not assigned");
    }
  }
}

int peak(const Plan& plan, int Action::*place) {
  int highest = -1;
  for (const Action& action : plan) {
    highest = std::max(highest, action.*place);
  }
  return highest + 1;
}

std::vector<dim_t> order_of(const Plan& plan, ActionKind kind) {
  std::vector<dim_t> order;
  for (const Action& action : plan) {
    if (action.kind == kind) {
      order.push_back(action.micro_batch);
    }
  }
  return order;
}

}  // namespace

int peak_slots(const Plan& plan) {
  return peak(plan, &Action::slot);
}

int peak_inputs(const Plan& plan) {
  return peak(plan, &Action::input);
}

void check_plan(const Plan& plan, const ScheduleShape& shape, int stage) {
  check_acts(plan, shape, stage);
  check_ascending(plan, stage, ActionKind::forward);
  check_ascending(plan, stage, ActionKind::backward_input);
  check_ascending(plan, stage, ActionKind::backward_weight);
  check_assigned(plan, stage);
  const std::vector<Range> lives = lifetimes(plan, static_cast<dim_t>(shape.micro_batches.size()));
  check_places(plan, lives, stage, &Action::slot, 0);
  check_places(plan, lives, stage, &Action::input, 1);
}

void check_plans(const std::vector<Plan>& plans, const ScheduleShape& shape) {
  CAMBIUM_CHECK(static_cast<int>(plans.size()) == shape.stages, "one plan per stage");
  for (int stage = 0; stage < shape.stages; ++stage) {
    check_plan(plans[static_cast<std::size_t>(stage)], shape, stage);
  }
  for (std::size_t low = 0; low + 1 < plans.size(); ++low) {
    const bool down = order_of(plans[low], ActionKind::send_activation) ==
                      order_of(plans[low + 1], ActionKind::receive_activation);
    const bool up = order_of(plans[low + 1], ActionKind::send_gradient) ==
                    order_of(plans[low], ActionKind::receive_gradient);
    if (!down || !up) {
      throw Error(
          Code::bug,
          fmt::format(
              "schedule: stages {} and {}: receives are not in the order of sends", low, low + 1));
    }
  }
}

}  // namespace cambium::schedule
