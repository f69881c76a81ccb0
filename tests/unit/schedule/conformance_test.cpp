// Every schedule of the registry keeps the rules of check.hpp, on every small shape.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <gtest/gtest.h>

#include "schedule/check.hpp"
#include "schedule/simulate.hpp"

namespace cambium::schedule {
namespace {

// Chunks per stage that a schedule is tried with.
std::vector<int> chunks_of(const std::string& schedule) {
  return schedule == "interleaved" ? std::vector<int>{1, 2, 3, 4} : std::vector<int>{1};
}

// All train; every third forward-only; forward-only first; forward-only last; none train.
std::vector<ScheduleShape> shapes_of(int chunks) {
  std::vector<ScheduleShape> all;
  for (int stages = chunks > 1 ? 2 : 1; stages <= 8; ++stages) {
    for (dim_t count = 1; count <= 16; ++count) {
      for (int mix = 0; mix < 5; ++mix) {
        ScheduleShape shape = train_shape(stages, count, chunks);
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

std::vector<ScheduleShape> shapes(const std::string& schedule) {
  std::vector<ScheduleShape> all;
  for (const int chunks : chunks_of(schedule)) {
    const std::vector<ScheduleShape> some = shapes_of(chunks);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string describe(const ScheduleShape& shape) {
  std::string text = std::to_string(shape.stages) + " stages of " +
                     std::to_string(shape.virtual_stages) + " chunks, micro-batches ";
  for (const MicroBatchKind kind : shape.micro_batches) {
    text += kind == MicroBatchKind::train ? 't' : 'f';
  }
  return text;
}

class ScheduleConformance : public testing::TestWithParam<std::string> {};

TEST_P(ScheduleConformance, KeepsTheRulesOfEveryPlan) {
  for (const ScheduleShape& shape : shapes(GetParam())) {
    EXPECT_NO_THROW(check_plans(plan_all_stages(GetParam(), shape), shape)) << describe(shape);
  }
}

TEST_P(ScheduleConformance, NeverDeadlocksUnderBufferedAndRendezvousSends) {
  for (const ScheduleShape& shape : shapes(GetParam())) {
    const std::vector<Plan> plans = plan_all_stages(GetParam(), shape);
    for (const Sends sends : {Sends::buffered, Sends::rendezvous}) {
      const Simulation result = simulate(plans, sends);
      EXPECT_TRUE(result.finished) << describe(shape) << ": " << result.deadlock;
    }
  }
}

// The schedules of one chunk need no sender that goes on; interleaved neighbours do.
TEST(BlockingSends, DeadlockNoScheduleOfOneChunk) {
  for (const char* name : {"1f1b", "gpipe"}) {
    for (const ScheduleShape& shape : shapes_of(1)) {
      const Simulation result = simulate(plan_all_stages(name, shape), Sends::blocking);
      EXPECT_TRUE(result.finished) << name << ", " << describe(shape) << ": " << result.deadlock;
    }
  }
}

TEST_P(ScheduleConformance, HoldsNoMoreSlotsThanPromised) {
  for (const ScheduleShape& shape : shapes(GetParam())) {
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

// Narayanan et al. 2021, section 2.2: v chunks make the bubble v times smaller, where every group
// of micro-batches is full.
TEST(Interleaved, DividesTheBubbleByItsChunks) {
  for (int p = 2; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (dim_t groups = 1; groups <= 3; ++groups) {
        const dim_t m = groups * p;
        const Simulation result = simulate(plan_all_stages("interleaved", train_shape(p, m, v)),
                                           Sends::buffered,
                                           {.backward_input = 2, .backward_weight = 0});
        EXPECT_DOUBLE_EQ(result.makespan, 3.0 * static_cast<double>(m * v + p - 1))
            << "p " << p << " v " << v << " m " << m;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry,
                         ScheduleConformance,
                         testing::ValuesIn(schedule_names()),
                         [](const auto& i) { return "schedule_" + i.param; });

}  // namespace
}  // namespace cambium::schedule
