// Variables, derived nodes, cutoff, necessity, heights.
// SPDX-License-Identifier: Apache-2.0
#include "incremental/graph.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace cambium::incremental {
namespace {

using testing::HasSubstr;

TEST(Graph, DerivesValuesFromOneToFiveInputs) {
  Graph graph;
  const auto a = graph.var("a", 1);
  const auto b = graph.var("b", std::string("x"));
  const auto one = graph.map(
      "one", [](int v) { return v + 0.5; }, a);
  const auto five = graph.map(
      "five",
      [](int v, const std::string& s, double d, int w, int u) {
        return fmt::format("{}{}{}", s, v + w + u, d > 1 ? "!" : "?");
      },
      a,
      b,
      one,
      a,
      a);
  graph.observe(five);

  graph.stabilize();

  EXPECT_EQ(graph.value(five), "x3!");
  EXPECT_EQ(graph.value(one), 1.5);
  graph.check_invariants();
}

TEST(Graph, DerivesFromAVectorOfInputsInTheirOrder) {
  Graph graph;
  std::vector<Node<int>> inputs;
  for (int i = 0; i < 7; ++i) {
    inputs.push_back(graph.var(fmt::format("v{}", i), i));
  }
  const auto digits = graph.map_all(
      "digits",
      [](const std::vector<const int*>& all) {
        std::string text;
        for (const int* digit : all) {
          text += std::to_string(*digit);
        }
        return text;
      },
      inputs);
  graph.observe(digits);

  graph.stabilize();

  EXPECT_EQ(graph.value(digits), "0123456");
}

TEST(Graph, RecomputesTheFootOfADiamondOnce) {
  Graph graph;
  const auto top = graph.var("top", 1);
  const auto left = graph.map(
      "left", [](int v) { return v + 1; }, top);
  const auto right = graph.map(
      "right", [](int v) { return v * 10; }, top);
  int runs = 0;
  const auto foot = graph.map(
      "foot",
      [&runs](int l, int r) {
        ++runs;
        return l + r;
      },
      left,
      right);
  graph.observe(foot);
  EXPECT_EQ(graph.stabilize().recomputed, 4);

  graph.set(top, 2);
  const Counters done = graph.stabilize();

  EXPECT_EQ(graph.value(foot), 23);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(done.recomputed, 4);
  EXPECT_EQ(done.changed, 4);
}

TEST(Graph, StopsWhereAValueIsWhatItWas) {
  Graph graph;
  const auto number = graph.var("number", 4);
  const auto parity = graph.map(
      "parity", [](int v) { return v % 2; }, number);
  const auto name = graph.map(
      "name", [](int p) { return p == 0 ? "even" : "odd"; }, parity);
  graph.observe(name);
  graph.stabilize();

  graph.set(number, 6);
  const Counters even = graph.stabilize();
  graph.set(number, 6);
  const Counters same = graph.stabilize();

  EXPECT_EQ(even.recomputed, 2) << "number and parity, not name";
  EXPECT_EQ(even.changed, 1);
  EXPECT_EQ(even.cut_off, 1);
  EXPECT_EQ(same.recomputed, 1) << "the variable alone";
  EXPECT_EQ(same.cut_off, 1);
}

struct Table {
  std::string content;
  int reads = 0;
};

std::uint64_t hash_of(const Table& table) {
  return hash_text(table.content);
}

TEST(Cutoff, ComparesContentHashesWhereAValueHasOne) {
  Graph graph;
  const auto table = graph.var("table", Table{"abc", 1});
  const auto size = graph.map(
      "size", [](const Table& t) { return t.content.size(); }, table);
  graph.observe(size);
  graph.stabilize();

  graph.set(table, Table{"abc", 2});
  EXPECT_EQ(graph.stabilize().recomputed, 1);
  graph.set(table, Table{"abd", 2});
  EXPECT_EQ(graph.stabilize().recomputed, 2);
}

TEST(Cutoff, TakesTheCallersEquality) {
  Graph graph;
  const auto number = graph.var("number", 1.0);
  const auto copy = graph.map(
      "copy", [](double v) { return v; }, number);
  graph.set_cutoff(number, [](double a, double b) { return std::abs(a - b) < 0.1; });
  graph.observe(copy);
  graph.stabilize();

  graph.set(number, 1.05);
  graph.stabilize();
  EXPECT_EQ(graph.value(copy), 1.0);
  graph.set(number, 1.2);
  graph.stabilize();
  EXPECT_EQ(graph.value(copy), 1.2);
}

struct Opaque {
  int value;
};

TEST(Cutoff, NeverHoldsForValuesThatCannotBeCompared) {
  Graph graph;
  const auto thing = graph.var("thing", Opaque{1});
  const auto value = graph.map(
      "value", [](const Opaque& o) { return o.value; }, thing);
  graph.observe(value);
  graph.stabilize();

  graph.set(thing, Opaque{1});

  EXPECT_EQ(graph.stabilize().recomputed, 2);
}

TEST(Observers, AloneMakeNodesNecessary) {
  Graph graph;
  int runs = 0;
  const auto a = graph.var("a", 1);
  const auto b = graph.map(
      "b",
      [&runs](int v) {
        ++runs;
        return v + 1;
      },
      a);
  EXPECT_EQ(graph.stabilize().recomputed, 0);
  EXPECT_THROW((void)graph.value(b), Error);

  graph.observe(b);
  graph.observe(b);
  EXPECT_EQ(graph.stabilize().necessary, 2);
  graph.unobserve(b);
  graph.set(a, 2);
  graph.stabilize();
  EXPECT_EQ(graph.value(b), 3);
  graph.unobserve(b);
  graph.set(a, 7);

  EXPECT_EQ(graph.stabilize().necessary, 0);
  EXPECT_EQ(runs, 2);
  EXPECT_THROW((void)graph.value(b), Error) << "its value may be old";
  EXPECT_THROW(graph.unobserve(b), Error);
  graph.observe(b);
  graph.stabilize();
  EXPECT_EQ(graph.value(b), 8);
  graph.check_invariants();
}

TEST(Observers, LeaveAFreshNodeAloneWhenItBecomesNecessaryAgain) {
  Graph graph;
  const auto a = graph.var("a", 1);
  const auto b = graph.map(
      "b", [](int v) { return v + 1; }, a);
  graph.observe(b);
  graph.stabilize();
  graph.unobserve(b);
  graph.observe(b);

  EXPECT_EQ(graph.stabilize().recomputed, 0);
  EXPECT_EQ(graph.value(b), 2);
}

TEST(Heights, OfALongChainAreNoLimit) {
  constexpr int kLength = 20000;
  Graph graph;
  const auto start = graph.var("start", 0);
  Node<int> end = start;
  for (int i = 0; i < kLength; ++i) {
    end = graph.map(
        "link", [](int v) { return v + 1; }, end);
  }
  graph.observe(end);

  EXPECT_EQ(graph.stabilize().recomputed, kLength + 1);
  EXPECT_EQ(graph.value(end), kLength);
  graph.set(start, 5);
  EXPECT_EQ(graph.stabilize().recomputed, kLength + 1);
  EXPECT_EQ(graph.value(end), kLength + 5);
  graph.check_invariants();
  graph.unobserve(end);
  EXPECT_EQ(graph.counters().necessary, 0);
}

// The point of the module: the work of an insertion does not depend on how many layers there are.
TEST(Memo, KeyedByUidRecomputesOnlyTheInsertedLayer) {
  for (const int layers : {4, 16, 64}) {
    Graph graph;
    std::map<std::uint64_t, int> runs;
    std::vector<std::uint64_t> order;
    for (int i = 0; i < layers; ++i) {
      order.push_back(static_cast<std::uint64_t>(i));
    }
    const auto width = graph.var("width", 8);
    const auto layer_order = graph.var("order", order);
    const auto bytes =
        graph.bind("bytes", layer_order, [&](const std::vector<std::uint64_t>& uids) {
          std::vector<Node<int>> parts;
          for (const std::uint64_t uid : uids) {
            parts.push_back(graph.memo("layer bytes", uid, [&, uid] {
              return graph.map(
                  "layer bytes",
                  [&runs, uid](int w) {
                    ++runs[uid];
                    return w * 4;
                  },
                  width);
            }));
          }
          return graph.map_all(
              "sum",
              [](const std::vector<const int*>& all) {
                int sum = 0;
                for (const int* part : all) {
                  sum += *part;
                }
                return sum;
              },
              parts);
        });
    graph.observe(bytes);
    graph.stabilize();
    ASSERT_EQ(graph.value(bytes), layers * 32);

    order.insert(order.begin() + 1, 1000);
    graph.begin();
    graph.set(layer_order, order);
    graph.stabilize();
    graph.commit();

    EXPECT_EQ(graph.value(bytes), (layers + 1) * 32);
    // order, the bind's choice, the new layer, the new sum, the bind.
    EXPECT_EQ(graph.counters().recomputed, 5) << layers;
    EXPECT_EQ(graph.counters().created, 2) << layers;
    EXPECT_EQ(graph.counters().invalidated, 1) << layers;
    for (const auto& [uid, count] : runs) {
      EXPECT_EQ(count, 1) << "layer " << uid;
    }
    graph.check_invariants();
  }
}

TEST(Graph, RefusesEditsInsideAFunction) {
  Graph graph;
  const auto a = graph.var("a", 1);
  const auto bad = graph.map(
      "bad",
      [&](int v) {
        graph.set(a, v + 1);
        return v;
      },
      a);
  graph.observe(bad);

  EXPECT_THROW(graph.stabilize(), Error);
  graph.check_invariants();
}

TEST(Dot, ShowsLabelsHeightsAndStates) {
  Graph graph;
  const auto a = graph.var("say \"a\"", 1);
  const auto b = graph.map(
      "b", [](int v) { return v; }, a);
  graph.observe(b);

  EXPECT_THAT(graph.dot(), HasSubstr("say \\\"a\\\""));
  EXPECT_THAT(graph.dot(), HasSubstr("b\\nheight 1, observed 1, stale"));
  EXPECT_THAT(graph.dot(), HasSubstr("n0 -> n1;"));
  graph.stabilize();
  EXPECT_THAT(graph.dot(), HasSubstr("b\\nheight 1, observed 1, fresh"));
}

}  // namespace
}  // namespace cambium::incremental
