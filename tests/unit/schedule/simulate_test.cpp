// The simulator on cases small enough to do by hand.
// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cambium::schedule {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Simulate, WaitsForMessagesAndCountsTheirTime) {
  const std::vector<Plan> plans = plan_all_stages("gpipe", train_shape(2, 1));

  // 0: F 0-1; 1: F 1.5-2.5, B 2.5-3.5, W 3.5-4.5; 0: B 4-5, W 5-6.
  const Simulation result = simulate(plans, Sends::buffered, {.message = 0.5});

  ASSERT_TRUE(result.finished);
  EXPECT_DOUBLE_EQ(result.makespan, 6);
  EXPECT_DOUBLE_EQ(result.bubble, 1 - 6.0 / 12.0);
  EXPECT_DOUBLE_EQ(result.timeline[0].back().begin, 5);
  EXPECT_EQ(result.timeline[1].front().action.kind, ActionKind::receive_activation);
  EXPECT_DOUBLE_EQ(result.timeline[1].front().end, 1.5);
}

TEST(Simulate, ScalesUnevenStages) {
  const std::vector<Plan> plans = plan_all_stages("1f1b", train_shape(1, 2));

  EXPECT_DOUBLE_EQ(simulate(plans, Sends::buffered, {.stage_scale = {2.5}}).makespan, 15);
}

TEST(Simulate, ReportsThePeakSlotsOfEachStage) {
  EXPECT_THAT(simulate(plan_all_stages("1f1b", train_shape(4, 8)), Sends::buffered).peak_slots,
              ElementsAre(4, 3, 2, 1));
}

// Both stages send first and receive afterwards, and neither posts its receive in time.
TEST(Simulate, FindsADeadlockThatOnlyBlockingSendsHave) {
  const Plan low = {{ActionKind::forward, 0, 0},
                    {ActionKind::send_activation, 0, 0},
                    {ActionKind::forward, 1, 1},
                    {ActionKind::receive_gradient, 1, 1}};
  const Plan high = {{ActionKind::send_gradient, 1, 1},
                     {ActionKind::forward, 1, 1},
                     {ActionKind::receive_activation, 0, 0}};

  EXPECT_TRUE(simulate({low, high}, Sends::buffered).finished);
  EXPECT_TRUE(simulate({low, high}, Sends::rendezvous).finished);
  const Simulation result = simulate({low, high}, Sends::blocking);

  EXPECT_FALSE(result.finished);
  EXPECT_THAT(result.deadlock,
              HasSubstr("stage 0 waits in send_activation of micro-batch 0 (action 1 of 4)"));
  EXPECT_THAT(result.deadlock,
              HasSubstr("stage 1 waits in send_gradient of micro-batch 1 (action 0 of 3)"));
}

// The low stage uses its only slot again, whose message the high one does not want yet.
TEST(Simulate, FindsADeadlockThatOnlyRendezvousSendsHave) {
  const auto pass = [](dim_t m) {
    return Plan{{ActionKind::forward, m, 0}, {ActionKind::send_activation, m, 0}};
  };
  Plan low;
  Plan high;
  for (dim_t m = 0; m < 3; ++m) {
    const Plan one = pass(m);
    low.insert(low.end(), one.begin(), one.end());
    high.push_back({ActionKind::receive_activation, 2 - m, 0});
  }

  EXPECT_TRUE(simulate({low, high}, Sends::buffered).finished);
  const Simulation result = simulate({low, high}, Sends::rendezvous);

  EXPECT_FALSE(result.finished);
  EXPECT_THAT(result.deadlock,
              HasSubstr("stage 0 waits in forward of micro-batch 1 (action 2 of 6)"));
  EXPECT_THAT(result.deadlock,
              HasSubstr("stage 1 waits in receive_activation of micro-batch 2 (action 0 of 3)"));
}

// Gradients leave from two buffers in turn: the third waits for the first.
TEST(Simulate, LetsTwoGradientsBeOnTheirWay) {
  Plan high;
  for (dim_t m = 0; m < 3; ++m) {
    high.push_back({ActionKind::backward_input, m, 0});
    high.push_back({ActionKind::send_gradient, m, 0});
  }

  const Simulation result = simulate({{}, high}, Sends::rendezvous);

  EXPECT_THAT(result.deadlock,
              HasSubstr("stage 1 waits in backward_input of micro-batch 2 (action 4 of 6)"));
}

TEST(Simulate, NamesAMessageThatNobodyReceives) {
  const Plan low = {{ActionKind::forward, 0, 0}, {ActionKind::send_activation, 0, 0}};

  EXPECT_TRUE(simulate({low, {}}, Sends::buffered).finished);
  EXPECT_THAT(simulate({low, {}}, Sends::rendezvous).deadlock,
              HasSubstr("stage 0 waits for send_activation of micro-batch 0 to leave"));
}

TEST(Simulate, FindsAMessageThatNobodySends) {
  const Simulation result =
      simulate({{}, {{ActionKind::receive_activation, 0, 0}}}, Sends::buffered);

  EXPECT_FALSE(result.finished);
  EXPECT_THAT(result.deadlock, HasSubstr("receive_activation"));
}

// The price of the weight gradient: it follows the gradient's send, so the stage above does not
// wait for it.
TEST(Simulate, LetsTheWeightGradientOverlapWithTheStageBelow) {
  for (int p = 2; p <= 8; ++p) {
    const std::vector<Plan> plans = plan_all_stages("gpipe", train_shape(p, 8));

    EXPECT_DOUBLE_EQ(simulate(plans, Sends::buffered).makespan, 8 * 3 + (p - 1) * 2) << "p " << p;
  }
}

}  // namespace
}  // namespace cambium::schedule
