// SPDX-License-Identifier: Apache-2.0
#include "schedule/check.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "schedule/plan_builder.hpp"

namespace cambium::schedule {
namespace {

constexpr std::size_t kKinds = 7;

[[noreturn]] void refuse(int stage, std::size_t index, const std::string& what) {
  throw Error(Code::bug, fmt::format("schedule: stage {} action {}: {}", stage, index, what));
}

// Which acts a micro-batch has on a virtual stage.
std::array<bool, kKinds> expected_acts(const ScheduleShape& shape,
                                       int stage,
                                       int chunk,
                                       MicroBatchKind kind) {
  const bool first = shape.is_first(stage, chunk);
  const bool last = shape.is_last(stage, chunk);
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

// Each act once, and the acts of one micro-batch in a chunk in the order of ActionKind, which is
// the order of their dependence.
void check_acts(const Plan& plan, const ScheduleShape& shape, int stage) {
  const std::size_t count = shape.micro_batches.size();
  std::vector<std::array<bool, kKinds>> done(count *
                                             static_cast<std::size_t>(shape.virtual_stages));
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const Action& action = plan[i];
    if (action.micro_batch < 0 || action.micro_batch >= static_cast<dim_t>(count)) {
      refuse(stage, i, fmt::format("micro-batch {} is not in the shape", action.micro_batch));
    }
    if (action.chunk < 0 || action.chunk >= shape.virtual_stages) {
      refuse(stage, i, fmt::format("chunk {} is not in the shape", action.chunk));
    }
    auto& acts = done[life_of(action, count)];
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
  for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
    for (std::size_t m = 0; m < count; ++m) {
      if (done[static_cast<std::size_t>(chunk) * count + m] !=
          expected_acts(shape, stage, chunk, shape.micro_batches[m])) {
        refuse(
            stage,
            plan.size(),
            fmt::format("micro-batch {} lacks an act or has one too many in chunk {}", m, chunk));
      }
    }
  }
}

void check_ascending(const Plan& plan, int stage, int chunk, ActionKind kind) {
  dim_t last = -1;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].kind != kind || plan[i].chunk != chunk) {
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

// A place is one micro-batch's from `begins` (its first action in a chunk, or earlier for a
// receive) to its last action there. `key` names the place, or is negative.
template <typename Key>
void check_places(const Plan& plan,
                  const std::vector<Range>& lives,
                  const std::vector<dim_t>& begins,
                  std::size_t count,
                  int stage,
                  Key&& key) {
  std::map<std::pair<int, int>, std::size_t> owner;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::pair<int, int> place = key(plan[i]);
    if (place.second < 0) {
      continue;
    }
    const std::size_t mine = life_of(plan[i], count);
    const auto [found, is_new] = owner.try_emplace(place, mine);
    const std::size_t previous = found->second;
    if (!is_new && previous != mine && lives[previous].end > begins[mine]) {
      refuse(stage,
             i,
             fmt::format("place {} of micro-batch {} is still held by {}",
                         place.second,
                         plan[i].micro_batch,
                         previous % count));
    }
    found->second = mine;
  }
}

// When each life's slot is taken, and when the buffer of its activation is.
std::vector<dim_t> slot_begins(const std::vector<Range>& lives) {
  std::vector<dim_t> begins;
  for (const Range& life : lives) {
    begins.push_back(life.begin);
  }
  return begins;
}

std::vector<dim_t> input_begins(const Plan& plan,
                                const std::vector<Range>& lives,
                                std::size_t count) {
  std::vector<dim_t> begins = slot_begins(lives);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::size_t next = next_receive(plan, i);
    if (is_receive(plan[i].kind) && next < plan.size() &&
        plan[next].kind == ActionKind::receive_activation) {
      begins[life_of(plan[next], count)] = static_cast<dim_t>(i);
    }
  }
  return begins;
}

void check_assigned(const Plan& plan, const ScheduleShape& shape, int stage) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].slot < 0 || (plan[i].input < 0) != shape.is_first(stage, plan[i].chunk)) {
      refuse(stage, i, "slot or receive buffer is not assigned");
    }
  }
}

// Micro-batches in the order of an act of one chunk.
std::vector<dim_t> order_of(const Plan& plan, ActionKind kind, int chunk) {
  std::vector<dim_t> order;
  for (const Action& action : plan) {
    if (action.kind == kind && action.chunk == chunk) {
      order.push_back(action.micro_batch);
    }
  }
  return order;
}

}  // namespace

int peak_slots(const Plan& plan, int chunk) {
  int highest = -1;
  for (const Action& action : plan) {
    if (action.chunk == chunk) {
      highest = std::max(highest, action.slot);
    }
  }
  return highest + 1;
}

int peak_slots(const Plan& plan) {
  int chunks = 0;
  for (const Action& action : plan) {
    chunks = std::max(chunks, action.chunk + 1);
  }
  int total = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    total += peak_slots(plan, chunk);
  }
  return total;
}

int peak_inputs(const Plan& plan) {
  int highest = -1;
  for (const Action& action : plan) {
    highest = std::max(highest, action.input);
  }
  return highest + 1;
}

void check_plan(const Plan& plan, const ScheduleShape& shape, int stage) {
  check_acts(plan, shape, stage);
  for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
    check_ascending(plan, stage, chunk, ActionKind::forward);
    check_ascending(plan, stage, chunk, ActionKind::backward_input);
    check_ascending(plan, stage, chunk, ActionKind::backward_weight);
  }
  check_assigned(plan, shape, stage);
  const std::size_t count = shape.micro_batches.size();
  const std::vector<Range> lives = lifetimes(plan, shape);
  check_places(plan, lives, slot_begins(lives), count, stage, [](const Action& a) {
    return std::pair(a.chunk, a.slot);
  });
  check_places(plan, lives, input_begins(plan, lives, count), count, stage, [](const Action& a) {
    return std::pair(0, a.input);
  });
}

void check_plans(const std::vector<Plan>& plans, const ScheduleShape& shape) {
  CAMBIUM_CHECK(static_cast<int>(plans.size()) == shape.stages, "one plan per stage");
  for (int stage = 0; stage < shape.stages; ++stage) {
    check_plan(plans[static_cast<std::size_t>(stage)], shape, stage);
  }
  const int virtual_stages = shape.stages * shape.virtual_stages;
  for (int low = 0; low + 1 < virtual_stages; ++low) {
    const Plan& below = plans[static_cast<std::size_t>(low % shape.stages)];
    const Plan& above = plans[static_cast<std::size_t>((low + 1) % shape.stages)];
    const int chunk = low / shape.stages;
    const int next = (low + 1) / shape.stages;
    const bool down = order_of(below, ActionKind::send_activation, chunk) ==
                      order_of(above, ActionKind::receive_activation, next);
    const bool up = order_of(above, ActionKind::send_gradient, next) ==
                    order_of(below, ActionKind::receive_gradient, chunk);
    if (!down || !up) {
      throw Error(
          Code::bug,
          fmt::format("schedule: virtual stages {} and {}: receives are not in the order of sends",
                      low,
                      low + 1));
    }
  }
}

}  // namespace cambium::schedule
