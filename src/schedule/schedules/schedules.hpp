// schedule/schedules/schedules.hpp — the schedules that registry.cpp lists; one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "schedule/schedule.hpp"

namespace cambium::schedule {

// All forwards, then all backwards, both ascending. Holds every micro-batch that trains.
[[nodiscard]] Plan plan_gpipe(const ScheduleShape& shape, int stage);
[[nodiscard]] int promise_gpipe(const ScheduleShape& shape, int stage);

// After the first stages - stage - 1 forwards, one forward, one backward. Holds at most stages -
// stage micro-batches.
[[nodiscard]] Plan plan_1f1b(const ScheduleShape& shape, int stage);
[[nodiscard]] int promise_1f1b(const ScheduleShape& shape, int stage);

// 1F1B over several chunks of layers per stage: the bubble is 1 / virtual_stages of 1F1B's, for
// virtual_stages times the messages.
[[nodiscard]] Plan plan_interleaved(const ScheduleShape& shape, int stage);
[[nodiscard]] int promise_interleaved(const ScheduleShape& shape, int stage);

}  // namespace cambium::schedule
