// SPDX-License-Identifier: Apache-2.0
#include "base/tree.hpp"

#include <gtest/gtest.h>
#include <string>

#include "base/error.hpp"

namespace cambium {
namespace {

// The order as text: leaf i is its number, a sum is (left+right).
std::string text_of(const SumTree& tree, dim_t id) {
  const SumTree::Node& n = tree.node(id);
  return n.left < 0 ? std::to_string(id)
                    : "(" + text_of(tree, n.left) + "+" + text_of(tree, n.right) + ")";
}

struct Text {
  std::string text;

  Text operator+(const Text& other) const {
    return {"(" + text + "+" + other.text + ")"};
  }
};

TEST(SumTree, AddsNeighboursWhileEvenThenTheRestAscending) {
  const auto order = [](dim_t leaves) {
    const SumTree tree(leaves);
    return text_of(tree, tree.root());
  };
  EXPECT_EQ(order(1), "0");
  EXPECT_EQ(order(2), "(0+1)");
  EXPECT_EQ(order(3), "((0+1)+2)");
  EXPECT_EQ(order(4), "((0+1)+(2+3))");
  EXPECT_EQ(order(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(order(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(SumTree, TreeSumOfValuesHasTheSameOrder) {
  for (dim_t leaves = 1; leaves <= 33; ++leaves) {
    std::vector<Text> values;
    for (dim_t i = 0; i < leaves; ++i) {
      values.push_back({std::to_string(i)});
    }
    const SumTree tree(leaves);
    EXPECT_EQ(tree_sum(values).text, text_of(tree, tree.root()));
  }
  EXPECT_EQ(tree_sum(std::vector<double>{}), 0);
}

TEST(SumTree, RefusesASumOfNothing) {
  EXPECT_THROW(SumTree(0), Error);
}

TEST(SumTree, MaximalSubtreesCoverExactlyWhatIsHeld) {
  for (dim_t leaves = 1; leaves <= 13; ++leaves) {
    const SumTree tree(leaves);
    for (dim_t begin = 0; begin <= leaves; ++begin) {
      for (dim_t end = begin; end <= leaves; ++end) {
        dim_t at = begin;
        for (const dim_t id : tree.maximal_subtrees({begin, end})) {
          EXPECT_EQ(tree.node(id).leaves.begin, at);
          at = tree.node(id).leaves.end;
        }
        EXPECT_EQ(at, end);
      }
    }
  }
}

TEST(LocalSum, NeedsLogarithmicallyManyBuffers) {
  const SumTree tree(64);
  EXPECT_EQ(plan_local_sum(tree, {0, 1}).buffers, 1);
  EXPECT_EQ(plan_local_sum(tree, {0, 2}).buffers, 2);
  EXPECT_EQ(plan_local_sum(tree, {16, 24}).buffers, 4);
  EXPECT_EQ(plan_local_sum(tree, {0, 64}).buffers, 7);
}

// A local plan carried out on texts, then the global one: the whole order, however the leaves are
// held.
TEST(GlobalSum, HasTheTreesOrderForEveryWayToHoldTheLeaves) {
  for (dim_t leaves = 1; leaves <= 12; ++leaves) {
    const SumTree tree(leaves);
    for (dim_t cut = 0; cut <= leaves; ++cut) {
      const std::vector<Range> held = {{0, cut}, {cut, leaves}};
      std::vector<Text> slots;
      for (const Range& range : held) {
        const LocalSum local = plan_local_sum(tree, range);
        std::vector<Text> buffers(static_cast<std::size_t>(local.buffers));
        for (dim_t i = 0; i < range.size(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          buffers[static_cast<std::size_t>(local.leaf_buffer[at])] = {
              std::to_string(range.begin + i)};
          for (const AddStep& step : local.after[at]) {
            Text& to = buffers[static_cast<std::size_t>(step.to)];
            to = to + buffers[static_cast<std::size_t>(step.from)];
          }
        }
        for (const dim_t b : local.node_buffer) {
          slots.push_back(buffers[static_cast<std::size_t>(b)]);
        }
      }
      const GlobalSum global = plan_global_sum(tree, held);
      ASSERT_EQ(global.slots, static_cast<dim_t>(slots.size()));
      for (const AddStep& step : global.steps) {
        Text& to = slots[static_cast<std::size_t>(step.to)];
        to = to + slots[static_cast<std::size_t>(step.from)];
      }
      EXPECT_EQ(slots[0].text, text_of(tree, tree.root())) << leaves << " leaves cut at " << cut;
    }
  }
}

TEST(GlobalSum, RefusesALeafThatNobodyHoldsAndRangesThatDescend) {
  const SumTree tree(4);
  EXPECT_THROW((void)plan_global_sum(tree, {{0, 2}, {3, 4}}), Error);
  EXPECT_THROW((void)plan_global_sum(tree, {{2, 4}, {0, 2}}), Error);
}

TEST(Share, CutsWithoutGapsAndEvenly) {
  for (dim_t n : {0, 1, 7, 12, 1000}) {
    for (dim_t parts = 1; parts <= 9; ++parts) {
      dim_t at = 0;
      for (dim_t i = 0; i < parts; ++i) {
        const Range r = share(n, parts, i);
        EXPECT_EQ(r.begin, at);
        EXPECT_GE(r.size(), n / parts);
        EXPECT_LE(r.size(), ceil_div(n, parts));
        at = r.end;
      }
      EXPECT_EQ(at, n);
    }
  }
}

}  // namespace
}  // namespace cambium
