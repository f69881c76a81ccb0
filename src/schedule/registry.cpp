// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "schedule/schedule.hpp"
#include "schedule/schedules/schedules.hpp"

namespace cambium::schedule {
namespace {

struct Entry {
  std::string_view name;
  Plan (*plan)(const ScheduleShape&, int stage);
  int (*promise)(const ScheduleShape&, int stage);
  bool takes_chunks = false;
};

constexpr Entry kEntries[] = {
    {"gpipe", plan_gpipe, promise_gpipe},
    {"1f1b", plan_1f1b, promise_1f1b},
    {"interleaved", plan_interleaved, promise_interleaved, true},
};

const Entry& find_entry(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      return entry;
    }
  }
  throw Error(
      Code::usage,
      fmt::format(
          "schedule: expected one of {}, got '{}'", fmt::join(schedule_names(), ", "), name));
}

void check_shape(const Entry& entry, const ScheduleShape& shape, int stage) {
  if (shape.stages < 1) {
    throw Error(Code::usage,
                fmt::format("schedule: stages: expected at least 1, got {}", shape.stages));
  }
  if (stage < 0 || stage >= shape.stages) {
    throw Error(Code::usage,
                fmt::format("schedule: stage: expected 0 to {}, got {}", shape.stages - 1, stage));
  }
  if (shape.virtual_stages > 1 && shape.stages == 1) {
    throw Error(Code::usage,
                fmt::format("schedule: virtual_stages: one stage has nothing to interleave, "
                            "expected 1, got {}",
                            shape.virtual_stages));
  }
  if (shape.virtual_stages < 1 || (shape.virtual_stages > 1 && !entry.takes_chunks)) {
    throw Error(
        Code::usage,
        fmt::format("schedule: virtual_stages: {} has one chunk of layers per stage, got {}; use "
                    "interleaved for more",
                    entry.name,
                    shape.virtual_stages));
  }
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) {
    names.emplace_back(entry.name);
  }
  return names;
}

ScheduleShape train_shape(int stages, dim_t count, int virtual_stages) {
  ScheduleShape shape{.stages = stages, .virtual_stages = virtual_stages};
  shape.micro_batches.assign(static_cast<std::size_t>(count), MicroBatchKind::train);
  return shape;
}

Plan plan_stage(std::string_view schedule, const ScheduleShape& shape, int stage) {
  const Entry& entry = find_entry(schedule);
  check_shape(entry, shape, stage);
  return entry.plan(shape, stage);
}

std::vector<Plan> plan_all_stages(std::string_view schedule, const ScheduleShape& shape) {
  std::vector<Plan> plans;
  for (int stage = 0; stage < shape.stages; ++stage) {
    plans.push_back(plan_stage(schedule, shape, stage));
  }
  return plans;
}

int promised_slots(std::string_view schedule, const ScheduleShape& shape, int stage) {
  const Entry& entry = find_entry(schedule);
  check_shape(entry, shape, stage);
  return entry.promise(shape, stage);
}

std::string_view name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::receive_activation:
      return "receive_activation";
    case ActionKind::forward:
      return "forward";
    case ActionKind::send_activation:
      return "send_activation";
    case ActionKind::receive_gradient:
      return "receive_gradient";
    case ActionKind::backward_input:
      return "backward_input";
    case ActionKind::send_gradient:
      return "send_gradient";
    case ActionKind::backward_weight:
      return "backward_weight";
  }
  throw Error(Code::bug, "schedule: an action of no kind");
}

}  // namespace cambium::schedule
