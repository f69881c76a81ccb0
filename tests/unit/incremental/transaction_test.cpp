// Commit and rollback.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "incremental/graph.hpp"
#include "unit/incremental/snapshot.hpp"

namespace cambium::incremental {
namespace {

struct Small {
  Graph graph;
  Var<int> a = graph.var("a", 1);
  Node<int> twice = graph.map(
      "twice", [](int v) { return 2 * v; }, a);
  Node<int> checked = graph.map(
      "checked",
      [](int v) {
        if (v > 100) {
          throw Error(Code::does_not_fit, "too big");
        }
        return v + 1;
      },
      twice);

  Small() {
    graph.observe(checked);
    graph.stabilize();
  }
};

TEST(Transaction, CommitKeepsWhatItDid) {
  Small small;
  small.graph.begin();
  small.graph.set(small.a, 5);
  small.graph.stabilize();
  small.graph.commit();

  EXPECT_EQ(small.graph.value(small.checked), 11);
  EXPECT_EQ(small.graph.counters().recomputed, 3);
  EXPECT_FALSE(small.graph.core().in_transaction());
}

TEST(Transaction, RollbackLeavesNoTrace) {
  Small small;
  const std::string before = snapshot(small.graph.core());
  small.graph.begin();
  small.graph.set(small.a, 5);
  const auto more = small.graph.map(
      "more", [](int v) { return v; }, small.twice);
  const auto kept = small.graph.memo("kept", 7, [&] {
    return small.graph.map(
        "kept", [](int v) { return -v; }, small.twice);
  });
  small.graph.observe(more);
  small.graph.observe(kept);
  small.graph.unobserve(small.checked);
  small.graph.stabilize();
  ASSERT_EQ(small.graph.value(kept), -10);

  small.graph.rollback();

  EXPECT_EQ(snapshot(small.graph.core()), before);
  EXPECT_EQ(small.graph.value(small.checked), 3);
  EXPECT_THROW((void)small.graph.value(more), Error) << "its node is gone";
  small.graph.check_invariants();
  int made = 0;
  small.graph.memo("kept", 7, [&] {
    ++made;
    return small.graph.map(
        "kept", [](int v) { return -v; }, small.twice);
  });
  EXPECT_EQ(made, 1) << "the memo was rolled back too";
}

TEST(Transaction, AHandleOfARolledBackNodeNeverComesAliveAgain) {
  Small small;
  small.graph.begin();
  const auto gone = small.graph.var("gone", 1);
  small.graph.rollback();
  const auto other = small.graph.var("other", 2);

  EXPECT_EQ(gone.id.index, other.id.index);
  EXPECT_THROW(small.graph.set(gone, 3), Error);
  EXPECT_EQ(small.graph.value(other), 2);
}

TEST(Transaction, IsRolledBackWhenAFunctionThrows) {
  Small small;
  const std::string before = snapshot(small.graph.core());
  small.graph.begin();
  small.graph.set(small.a, 70);

  try {
    small.graph.stabilize();
    FAIL() << "expected the function's own error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::does_not_fit);
  }

  EXPECT_FALSE(small.graph.core().in_transaction());
  EXPECT_EQ(snapshot(small.graph.core()), before);
  EXPECT_THROW(small.graph.commit(), Error);
  small.graph.rollback();
  small.graph.set(small.a, 4);
  small.graph.stabilize();
  EXPECT_EQ(small.graph.value(small.checked), 9);
}

TEST(Transaction, OutsideOneAThrowKeepsTheEditAndRetries) {
  Small small;
  small.graph.set(small.a, 70);
  EXPECT_THROW(small.graph.stabilize(), Error);
  small.graph.check_invariants();
  EXPECT_THROW(small.graph.stabilize(), Error) << "still stale";
  small.graph.set(small.a, 2);
  small.graph.stabilize();

  EXPECT_EQ(small.graph.value(small.checked), 5);
}

TEST(Transaction, IsOneAtATimeAndCommitsOnlyWhatIsStable) {
  Small small;
  EXPECT_THROW(small.graph.commit(), Error);
  small.graph.begin();
  EXPECT_THROW(small.graph.begin(), Error);
  small.graph.set(small.a, 3);
  EXPECT_THROW(small.graph.commit(), Error);
  small.graph.stabilize();
  small.graph.commit();
}

TEST(Transaction, KeepsTheOldValueAliveForTheDiff) {
  Small small;
  const std::shared_ptr<const int> old = small.graph.shared_value(small.checked);
  small.graph.set(small.a, 9);
  small.graph.stabilize();

  EXPECT_EQ(*old, 3);
  EXPECT_EQ(small.graph.value(small.checked), 19);
}

}  // namespace
}  // namespace cambium::incremental
