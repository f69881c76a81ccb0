// Parts of the graph that depend on a value.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "incremental/graph.hpp"
#include "unit/incremental/snapshot.hpp"

namespace cambium::incremental {
namespace {

using testing::HasSubstr;

TEST(Bind, ChoosesBetweenNodes) {
  Graph graph;
  const auto choice = graph.var("choice", true);
  const auto yes = graph.var("yes", 1);
  const auto no = graph.var("no", 2);
  const auto chosen =
      graph.bind("chosen", choice, [&](bool c) { return c ? Node<int>(yes) : Node<int>(no); });
  graph.observe(chosen);
  graph.stabilize();
  EXPECT_EQ(graph.value(chosen), 1);

  graph.set(no, 20);
  EXPECT_EQ(graph.stabilize().recomputed, 0) << "not necessary";
  graph.set(choice, false);
  graph.stabilize();

  EXPECT_EQ(graph.value(chosen), 20);
  graph.check_invariants();
}

TEST(Bind, InvalidatesWhatItsFunctionMade) {
  Graph graph;
  const auto size = graph.var("size", 2);
  const auto base = graph.var("base", 10);
  Node<int> leaked;
  int inner_runs = 0;
  const auto total = graph.bind("total", size, [&](int n) {
    Node<int> node = base;
    for (int i = 0; i < n; ++i) {
      node = graph.map(
          "inner",
          [&inner_runs](int v) {
            ++inner_runs;
            return v + 1;
          },
          node);
    }
    leaked = node;
    return node;
  });
  graph.observe(total);
  graph.stabilize();
  const Node<int> old = leaked;
  ASSERT_EQ(graph.value(total), 12);
  inner_runs = 0;

  graph.begin();
  graph.set(size, 3);
  graph.set(base, 20);
  const Counters done = graph.stabilize();

  EXPECT_EQ(graph.value(total), 23);
  EXPECT_EQ(done.invalidated, 2);
  EXPECT_EQ(done.created, 3);
  EXPECT_EQ(inner_runs, 3) << "nodes of the old scope did not run, though their input changed";
  EXPECT_THROW((void)graph.value(old), Error);
  graph.check_invariants();
  graph.commit();
  graph.check_invariants();
  EXPECT_THROW(graph.observe(old), Error);
}

TEST(Bind, ReusesThePlacesOfInvalidNodes) {
  Graph graph;
  const auto n = graph.var("n", 0);
  const auto out = graph.bind("out", n, [&](int v) {
    return graph.map(
        "inner", [v](int w) { return v + w; }, n);
  });
  graph.observe(out);
  graph.stabilize();
  for (int i = 1; i < 100; ++i) {
    graph.set(n, i);
    graph.stabilize();
    ASSERT_EQ(graph.value(out), 2 * i);
  }

  EXPECT_LE(graph.core().size(), 6);
  EXPECT_EQ(graph.counters().nodes, 4);
  graph.check_invariants();
}

TEST(Bind, RollsBackToTheOldScope) {
  Graph graph;
  const auto n = graph.var("n", 3);
  const auto out = graph.bind("out", n, [&](int v) {
    return graph.map(
        "inner", [v](int w) { return v * w; }, n);
  });
  graph.observe(out);
  graph.stabilize();
  const std::string before = snapshot(graph.core());

  graph.begin();
  graph.set(n, 4);
  graph.stabilize();
  EXPECT_EQ(graph.value(out), 16);
  graph.rollback();

  EXPECT_EQ(snapshot(graph.core()), before);
  EXPECT_EQ(graph.value(out), 9);
  graph.set(n, 5);
  graph.stabilize();
  EXPECT_EQ(graph.value(out), 25);
  graph.check_invariants();
}

TEST(Bind, LiftsItsDependantsAboveAHighChoice) {
  Graph graph;
  const auto deep = graph.var("deep", false);
  const auto start = graph.var("start", 0);
  Node<int> high = start;
  for (int i = 0; i < 1500; ++i) {
    high = graph.map(
        "link", [](int v) { return v + 1; }, high);
  }
  const auto chosen =
      graph.bind("chosen", deep, [&](bool d) { return d ? high : Node<int>(start); });
  int runs = 0;
  const auto top = graph.map(
      "top",
      [&runs](int a, int b) {
        ++runs;
        return a + b;
      },
      chosen,
      start);
  graph.observe(top);
  graph.stabilize();
  graph.set(deep, true);
  graph.set(start, 1);
  graph.stabilize();

  EXPECT_EQ(graph.value(top), 1502);
  EXPECT_EQ(runs, 2);
  graph.check_invariants();
}

TEST(Bind, NestsAndInvalidatesInnerScopes) {
  Graph graph;
  const auto outer = graph.var("outer", 1);
  const auto inner = graph.var("inner", 1);
  const auto out = graph.bind("out", outer, [&](int o) {
    return graph.bind("in", inner, [&, o](int i) {
      return graph.map(
          "leaf", [o, i](int v) { return 100 * o + 10 * i + v; }, inner);
    });
  });
  graph.observe(out);
  graph.stabilize();
  EXPECT_EQ(graph.value(out), 111);

  graph.set(outer, 2);
  graph.set(inner, 3);
  const Counters both = graph.stabilize();

  EXPECT_EQ(graph.value(out), 233);
  EXPECT_EQ(both.invalidated, 3) << "the inner bind's two nodes and its leaf";
  graph.check_invariants();
}

TEST(Bind, WhoseInnerNodeLeakedMakesItsDependantsInvalid) {
  Graph graph;
  const auto n = graph.var("n", 1);
  Node<int> leaked;
  const auto out = graph.bind("out", n, [&](int) {
    return leaked = graph.map(
               "leaf", [](int v) { return v; }, n);
  });
  graph.observe(out);
  graph.stabilize();
  const auto outside = graph.map(
      "outside", [](int v) { return v; }, leaked);
  graph.observe(outside);
  graph.stabilize();
  EXPECT_EQ(graph.value(outside), 1);

  graph.set(n, 2);
  graph.stabilize();

  EXPECT_EQ(graph.value(out), 2);
  EXPECT_THROW((void)graph.value(outside), Error);
  graph.check_invariants();
  graph.unobserve(outside);
}

TEST(Bind, ThatChoosesItselfIsRefused) {
  Graph graph;
  const auto n = graph.var("n", 0);
  Node<int> self;
  const auto out = graph.bind("out", n, [&](int v) { return v == 0 ? Node<int>(n) : self; });
  self = graph.map(
      "above", [](int v) { return v; }, out);
  graph.observe(self);
  graph.stabilize();
  graph.set(n, 1);

  try {
    graph.stabilize();
    FAIL() << "a cycle went unseen";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("above depends on itself"));
  }
  graph.check_invariants();
}

TEST(Memo, OutlivesTheScopeThatAskedForIt) {
  Graph graph;
  const auto n = graph.var("n", 1);
  const auto base = graph.var("base", 5);
  int made = 0;
  const auto out = graph.bind("out", n, [&](int v) {
    const auto shared = graph.memo("shared", 9, [&] {
      ++made;
      return graph.map(
          "shared", [](int b) { return b * b; }, base);
    });
    return graph.map(
        "leaf", [v](int s) { return s + v; }, shared);
  });
  graph.observe(out);
  graph.stabilize();
  graph.set(n, 2);
  graph.stabilize();

  EXPECT_EQ(graph.value(out), 27);
  EXPECT_EQ(made, 1);
}

TEST(Memo, OfANodeThatFellIsMadeAnew) {
  Graph graph;
  const auto n = graph.var("n", 1);
  Node<int> leaked;
  const auto out = graph.bind("out", n, [&](int v) {
    return leaked = graph.map(
               "leaf", [v](int w) { return v + w; }, n);
  });
  graph.observe(out);
  graph.stabilize();
  const auto on_leaf = [&] {
    return graph.memo("on leaf", 1, [&] {
      return graph.map(
          "on leaf", [](int v) { return -v; }, leaked);
    });
  };
  const NodeId first = on_leaf().id;
  graph.begin();
  graph.set(n, 2);
  graph.stabilize();
  graph.commit();
  for (int i = 0; i < 4; ++i) {
    graph.var("takes a free place", i);
  }

  const auto second = on_leaf();
  graph.observe(second);
  graph.stabilize();

  EXPECT_NE(second.id.generation, first.generation);
  EXPECT_EQ(graph.value(second), -4);
  graph.check_invariants();
}

TEST(Bind, GivesPlacesBackAfterARollback) {
  Graph graph;
  const auto n = graph.var("n", 0);
  const auto out = graph.bind("out", n, [&](int v) {
    return graph.map(
        "inner", [v](int w) { return v + w; }, n);
  });
  graph.observe(out);
  graph.stabilize();
  for (int i = 1; i < 50; ++i) {
    graph.set(n, i);
    graph.stabilize();
    graph.begin();
    graph.set(n, -i);
    graph.stabilize();
    graph.rollback();
    ASSERT_EQ(graph.value(out), 2 * i);
  }

  EXPECT_LE(graph.core().size(), 6);
}

TEST(Bind, WhoseFunctionThrowsRollsBack) {
  Graph graph;
  const auto n = graph.var("n", 1);
  const auto out = graph.bind("out", n, [&](int v) {
    const auto leaf = graph.map(
        "leaf", [](int w) { return w; }, n);
    if (v == 2) {
      throw Error(Code::usage, "no");
    }
    return leaf;
  });
  graph.observe(out);
  graph.stabilize();
  const std::string before = snapshot(graph.core());
  graph.begin();
  graph.set(n, 2);

  EXPECT_THROW(graph.stabilize(), Error);

  EXPECT_EQ(snapshot(graph.core()), before);
  graph.set(n, 3);
  graph.stabilize();
  EXPECT_EQ(graph.value(out), 3);
}

}  // namespace
}  // namespace cambium::incremental
