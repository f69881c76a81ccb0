// unit/phases/fault_injection_test.cpp — `--inject` texts, and when a fault is due. Faults that end
// the process are tested where a process may end (tests/integration).
// SPDX-License-Identifier: Apache-2.0
#include "phases/fault_injection.hpp"

#include <gtest/gtest.h>

#include "support/throws.hpp"

namespace cambium {
namespace {

using phases::FaultInjection;
using testing::expect_error;

FaultInjection faults(const std::string& text, int rank = 0, dim_t step = 1) {
  FaultInjection f;
  f.add(text);
  f.set_rank(rank);
  f.set_step(step);
  return f;
}

TEST(FaultInjection, NothingIsDueWithoutAFault) {
  FaultInjection none;
  EXPECT_TRUE(none.is_empty());
  EXPECT_FALSE(none.pass("step"));
}

TEST(FaultInjection, FiresOnceAtItsPoint) {
  FaultInjection f = faults("nan:point=gradient");
  EXPECT_FALSE(f.is_empty());
  EXPECT_FALSE(f.pass("step"));
  EXPECT_TRUE(f.pass("gradient"));
  EXPECT_FALSE(f.pass("gradient"));
}

TEST(FaultInjection, LooksAtRankAndStep) {
  EXPECT_FALSE(faults("nan:point=p,rank=1", 0).pass("p"));
  EXPECT_TRUE(faults("nan:point=p,rank=1", 1).pass("p"));
  FaultInjection f = faults("nan:point=p,step=3", 0, 2);
  EXPECT_FALSE(f.pass("p"));
  f.set_step(3);
  EXPECT_TRUE(f.pass("p"));
}

TEST(FaultInjection, CountsPassesAndFirings) {
  FaultInjection f = faults("nan:point=p,after=2,count=3");
  std::string seen;
  for (int i = 0; i < 8; ++i) {
    seen += f.pass("p") ? 'x' : '.';
  }
  EXPECT_EQ(seen, "..xxx...");
}

TEST(FaultInjection, ThrowsWithPointAndStep) {
  for (const char* kind : {"throw", "fail"}) {
    FaultInjection f = faults(std::string(kind) + ":point=growth.prove", 0, 42);
    expect_error(Code::bug, {"growth.prove", "42"}, [&] { (void)f.pass("growth.prove"); });
    EXPECT_FALSE(f.pass("growth.prove"));
  }
}

TEST(FaultInjection, SeveralMayWait) {
  FaultInjection f = faults("nan:point=a");
  f.add("nan:point=b");
  EXPECT_TRUE(f.pass("b"));
  EXPECT_TRUE(f.pass("a"));
}

TEST(FaultInjection, RefusesWhatItDoesNotUnderstand) {
  for (const char* wrong : {"", "kill", "explode:point=p", ":point=p"}) {
    expect_error(Code::usage, {"--inject", "KIND:point=P"}, [&] { (void)faults(wrong); });
  }
  expect_error(Code::usage, {"--inject", "unknown key \"setp\""}, [&] {
    (void)faults("kill:point=p,setp=3");
  });
  for (const char* wrong : {"kill:point=p,step=x",
                            "kill:point=p,rank=1x",
                            "kill:point=p,after=",
                            "kill:point=p,count"}) {
    expect_error(Code::usage, {"--inject", "is no number"}, [&] { (void)faults(wrong); });
  }
}

// A fault without a point would never fire: a test that uses it would pass for nothing.
TEST(FaultInjection, RefusesAFaultWithoutAPoint) {
  for (const char* wrong : {"kill:", "kill:rank=1", "kill:point=", "nan:step=3,rank=0"}) {
    expect_error(Code::usage, {"--inject", "point"}, [&] { (void)faults(wrong); });
  }
}

}  // namespace
}  // namespace cambium
