// The plans themselves, by hand, and what the checks refuse.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "schedule/check.hpp"

namespace cambium::schedule {
namespace {

using testing::HasSubstr;

// The chunk as a letter, where there is more than one.
std::string letters(const Plan& plan, bool has_chunks = false) {
  std::string text;
  for (const Action& action : plan) {
    constexpr std::string_view kLetters = "rFsgBuW";
    text += kLetters[static_cast<std::size_t>(action.kind)];
    text += std::to_string(action.micro_batch);
    text += has_chunks ? std::string(1, static_cast<char>('a' + action.chunk)) + ' ' : " ";
  }
  return text;
}

std::string message_of(const std::function<void()>& act, Code code) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code));
    return error.what();
  }
  return "no error";
}

TEST(OneFOneB, AlternatesAfterItsWarmUp) {
  const ScheduleShape shape = train_shape(2, 3);

  EXPECT_EQ(letters(plan_stage("1f1b", shape, 0)), "F0 s0 F1 s1 g0 B0 W0 F2 s2 g1 B1 W1 g2 B2 W2 ");
  EXPECT_EQ(letters(plan_stage("1f1b", shape, 1)), "r0 F0 B0 u0 W0 r1 F1 B1 u1 W1 r2 F2 B2 u2 W2 ");
}

TEST(OneFOneB, PassesForwardOnlyMicroBatchesInTheirOrder) {
  ScheduleShape shape = train_shape(2, 3);
  shape.micro_batches[1] = MicroBatchKind::forward_only;

  EXPECT_EQ(letters(plan_stage("1f1b", shape, 0)), "F0 s0 F1 s1 g0 B0 W0 F2 s2 g2 B2 W2 ");
  EXPECT_EQ(letters(plan_stage("1f1b", shape, 1)), "r0 F0 B0 u0 W0 r1 F1 r2 F2 B2 u2 W2 ");
}

TEST(OneFOneB, OneStageHoldsOneMicroBatchAndSendsNothing) {
  EXPECT_EQ(letters(plan_stage("1f1b", train_shape(1, 2), 0)), "F0 B0 W0 F1 B1 W1 ");
  EXPECT_EQ(peak_slots(plan_stage("1f1b", train_shape(1, 9), 0)), 1);
}

// Virtual stages: 0 and 2 on stage 0 (chunks a, b), 1 and 3 on stage 1.
TEST(Interleaved, TakesGroupsThroughTheChunks) {
  const ScheduleShape shape = train_shape(2, 2, 2);

  EXPECT_EQ(letters(plan_stage("interleaved", shape, 0), true),
            "F0a s0a F1a s1a r0b F0b s0b r1b F1b s1b "
            "g0b B0b u0b W0b g1b B1b u1b W1b g0a B0a W0a g1a B1a W1a ");
  EXPECT_EQ(letters(plan_stage("interleaved", shape, 1), true),
            "r0a F0a s0a r1a F1a s1a r0b F0b B0b u0b W0b r1b F1b B1b u1b W1b "
            "g0a B0a u0a W0a g1a B1a u1a W1a ");
  EXPECT_EQ(peak_slots(plan_stage("interleaved", shape, 1), 0), 2);
  EXPECT_EQ(peak_slots(plan_stage("interleaved", shape, 1), 1), 1);
}

TEST(Interleaved, TakesAnyNumberOfMicroBatches) {
  EXPECT_EQ(letters(plan_stage("interleaved", train_shape(2, 1, 2), 1), true),
            "r0a F0a s0a r0b F0b B0b u0b W0b g0a B0a u0a W0a ");
}

TEST(Interleaved, HasNothingToInterleaveOnOneStage) {
  EXPECT_THAT(
      message_of([] { (void)plan_stage("interleaved", train_shape(1, 2, 2), 0); }, Code::usage),
      HasSubstr("expected 1, got 2"));
}

TEST(Gpipe, RunsAllForwardsFirst) {
  EXPECT_EQ(letters(plan_stage("gpipe", train_shape(2, 2), 0)), "F0 s0 F1 s1 g0 B0 W0 g1 B1 W1 ");
  EXPECT_EQ(peak_slots(plan_stage("gpipe", train_shape(2, 9), 0)), 9);
}

TEST(Slots, OfAForwardOnlyMicroBatchIsFreeAfterItsSend) {
  ScheduleShape shape = train_shape(2, 4);
  shape.micro_batches.assign(4, MicroBatchKind::forward_only);

  EXPECT_EQ(peak_slots(plan_stage("gpipe", shape, 0)), 1);
  EXPECT_EQ(peak_inputs(plan_stage("gpipe", shape, 1)), 2)
      << "the next receive is posted while the last runs";
}

TEST(PlanStage, NamesWhatItKnowsWhenAskedForSomethingElse) {
  EXPECT_EQ(message_of([] { (void)plan_stage("1f1", train_shape(2, 2), 0); }, Code::usage),
            "schedule: expected one of gpipe, 1f1b, interleaved, got '1f1'");
  EXPECT_THAT(message_of([] { (void)plan_stage("1f1b", train_shape(2, 2), 2); }, Code::usage),
              HasSubstr("expected 0 to 1, got 2"));
  ScheduleShape interleaved = train_shape(2, 2);
  interleaved.virtual_stages = 2;
  EXPECT_THAT(message_of([&] { (void)plan_stage("1f1b", interleaved, 0); }, Code::usage),
              HasSubstr("virtual_stages"));
}

struct Damage {
  const char* name;
  void (*apply)(Plan&);
  const char* complaint;
};

class DamagedPlan : public testing::TestWithParam<Damage> {};

TEST_P(DamagedPlan, IsRefused) {
  const ScheduleShape shape = train_shape(2, 4);
  Plan plan = plan_stage("1f1b", shape, 0);
  GetParam().apply(plan);

  EXPECT_THAT(message_of([&] { check_plan(plan, shape, 0); }, Code::bug),
              HasSubstr(GetParam().complaint));
}

// Stage 0 of two, four micro-batches: F0 s0 F1 s1 g0 B0 W0 F2 s2 g1 B1 W1 F3 s3 g2 B2 W2 g3 B3 W3
INSTANTIATE_TEST_SUITE_P(
    Checks,
    DamagedPlan,
    testing::Values(
        Damage{"Missing", [](Plan& p) { p.pop_back(); }, "lacks an act"},
        Damage{"Twice", [](Plan& p) { p.push_back(p.back()); }, "twice"},
        Damage{"BackwardBeforeForward", [](Plan& p) { std::swap(p[0], p[5]); }, "too late"},
        Damage{"WeightsNotAscending",
               [](Plan& p) {
                 const Action early = p[6];
                 p.erase(p.begin() + 6);
                 p.insert(p.begin() + 11, early);
               },
               "expected ascending"},
        Damage{"SlotSharedTooEarly",
               [](Plan& p) {
                 for (Action& a : p) {
                   a.slot = 0;
                 }
               },
               "still held"},
        Damage{"SlotMissing", [](Plan& p) { p[3].slot = -1; }, "not assigned"},
        Damage{"UnknownMicroBatch", [](Plan& p) { p[3].micro_batch = 4; }, "not in the shape"}),
    [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace cambium::schedule
