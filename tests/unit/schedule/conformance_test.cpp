// Every schedule of the registry keeps the rules of check.hpp, on every small shape.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <gtest/gtest.h>

#include "schedule/check.hpp"
#include "schedule/simulate.hpp"

namespace cambium::schedule {
namespace {

// All train; every third forward-only; forward-only first; forward-only last; none train.
std::vector<ScheduleShape> shapes() {
  std::vector<ScheduleShape> all;
  for (int stages = 1; stages <= 8; ++stages) {
    for (dim_t count = 1; count <= 16; ++count) {
      for (int mix = 0; mix < 5; ++mix) {
        ScheduleShape shape = train_shape(stages, count);
        for (dim_t m = 0; m < count; ++m) {
          const bool forward_only = (mix == 1 && m % 3 == 1) || (mix == 2 && m < count / 2) ||
                                    (mix == 3 && m >= count / 2) || mix == 4;
          if (forward_only) {
            shape.micro_batches[static_cast<std::size_t>(m)] = MicroBatchKind::forward_only;
          }
        }
        all.push_back(shape);
      }
    }
  }
  return all;
}

std::string describe(const ScheduleShape& shape) {
  std::string text = std::to_string(shape.stages) + " stages, micro-batches ";
  for (const MicroBatchKind kind : shape.micro_batches) {
    text += kind == MicroBatchKind::train ? 't' : 'f';
  }
  return text;
}

class ScheduleConformance : public testing::TestWithParam<std::string> {};

TEST_P(ScheduleConformance, KeepsTheRulesOfEveryPlan) {
  for (const ScheduleShape& shape : shapes()) {
    EXPECT_NO_THROW(check_plans(plan_all_stages(GetParam(), shape), shape)) << describe(shape);
  }
}

TEST_P(ScheduleConformance, NeverDeadlocksUnderBufferedAndRendezvousSends) {
  for (const ScheduleShape& shape : shapes()) {
    const std::vector<Plan> plans = plan_all_stages(GetParam(), shape);
    for (const Sends sends : {Sends::buffered, Sends::rendezvous}) {
      const Simulation result = simulate(plans, sends);
      EXPECT_TRUE(result.finished) << describe(shape) << ": " << result.deadlock;
    }
  }
}

TEST_P(ScheduleConformance, HoldsNoMoreSlotsThanPromised) {
  for (const ScheduleShape& shape : shapes()) {
    const bool all_train =
        std::ranges::count(shape.micro_batches, MicroBatchKind::forward_only) == 0;
    for (int stage = 0; stage < shape.stages; ++stage) {
      const Plan plan = plan_stage(GetParam(), shape, stage);
      const int promise = promised_slots(GetParam(), shape, stage);

      EXPECT_LE(peak_slots(plan), promise) << describe(shape) << " stage " << stage;
      EXPECT_LE(peak_inputs(plan), peak_slots(plan) + 1) << describe(shape) << " stage " << stage;
      if (all_train) {
        EXPECT_EQ(peak_slots(plan), promise) << describe(shape) << " stage " << stage;
      }
    }
  }
}

// With backward_weight hidden in backward_input the bubble is the textbook's (p-1)/(m+p-1); with an
// act of its own after the gradient has left, a stage waits only for forwards and input gradients:
// (p-1)(F+B).
TEST_P(ScheduleConformance, HasTheTextbookBubbleForEqualCosts) {
  for (int p = 1; p <= 8; ++p) {
    for (dim_t m = 1; m <= 16; ++m) {
      const std::vector<Plan> plans = plan_all_stages(GetParam(), train_shape(p, m));
      const double waves = static_cast<double>(m) + p - 1;

      const Simulation two =
          simulate(plans, Sends::buffered, {.backward_input = 2, .backward_weight = 0});
      EXPECT_NEAR(two.bubble, (p - 1) / waves, 1e-12) << "p " << p << " m " << m;
      EXPECT_DOUBLE_EQ(two.makespan, 3 * waves);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         ScheduleConformance,
                         testing::ValuesIn(schedule_names()),
                         [](const auto& i) { return "schedule_" + i.param; });

}  // namespace
}  // namespace cambium::schedule
