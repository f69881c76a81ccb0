// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "comm/tree_sum.hpp"
#include "support/bits.hpp"

namespace cambium::comm {
namespace {

std::vector<double> leaf_values(dim_t leaves) {
  const RandomStream stream(5, Purpose::probe);
  std::vector<double> values;
  for (dim_t i = 0; i < leaves; ++i) {
    values.push_back(stream.normal_at(static_cast<std::uint64_t>(i)));
  }
  return values;
}

// Plays all ranks in one process: each sums its leaves, then the slots are summed.
double sum_over_ranks(const std::vector<double>& leaves, int ranks) {
  const auto n = static_cast<dim_t>(leaves.size());
  std::vector<double> slots;
  for (int rank = 0; rank < ranks; ++rank) {
    const ShardSum sum(n, ranks, rank);
    const Range held = share(n, ranks, rank);
    std::vector<double> buffers(static_cast<std::size_t>(sum.local.buffers));
    for (dim_t i = 0; i < held.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      buffers[static_cast<std::size_t>(sum.local.leaf_buffer[at])] =
          leaves[static_cast<std::size_t>(held.begin + i)];
      for (const AddStep& step : sum.local.after[at]) {
        buffers[static_cast<std::size_t>(step.to)] += buffers[static_cast<std::size_t>(step.from)];
      }
    }
    EXPECT_EQ(sum.global.first_slot[static_cast<std::size_t>(rank)],
              static_cast<dim_t>(slots.size()));
    for (const dim_t b : sum.local.node_buffer) {
      slots.push_back(buffers[static_cast<std::size_t>(b)]);
    }
  }
  const ShardSum sum(n, ranks, 0);
  EXPECT_EQ(sum.global.slots, static_cast<dim_t>(slots.size()));
  for (const AddStep& step : sum.global.steps) {
    slots[static_cast<std::size_t>(step.to)] += slots[static_cast<std::size_t>(step.from)];
  }
  return slots[0];
}

TEST(ShardSum, HasTheTreesBitsOnAnyNumberOfRanks) {
  for (dim_t leaves = 1; leaves <= 24; ++leaves) {
    const std::vector<double> values = leaf_values(leaves);
    const double want = tree_sum(values);
    for (int ranks = 1; ranks <= 8; ++ranks) {
      EXPECT_BITS_EQ(sum_over_ranks(values, ranks), want)
          << leaves << " leaves on " << ranks << " ranks";
    }
  }
}

TEST(ShardSum, OneRankHoldsTheRoot) {
  const ShardSum sum(6, 1, 0);
  EXPECT_EQ(sum.local.nodes, std::vector<dim_t>{sum.tree.root()});
  EXPECT_TRUE(sum.global.steps.empty());
}

TEST(ShardSum, APowerOfTwoShareIsOneSubtree) {
  for (int rank = 0; rank < 4; ++rank) {
    const ShardSum sum(16, 4, rank);
    EXPECT_EQ(sum.local.nodes.size(), 1U);
    EXPECT_EQ(sum.local.buffers, 3);  // log2 4 + 1
  }
}

TEST(ShardSum, OneRankSumsInPlaceAndApart) {
  auto group = make_self_group("tensor");
  const ShardSum sum(4, 1, 0);
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  std::vector<float> node = {1, 2, 3};
  std::vector<float> apart(3);
  const std::array<device::View, 1> nodes = {device::view_of(node.data(), 3)};

  tree_all_reduce(*group, stream, sum, nodes, nodes[0], workspace, Reduction::exact);
  tree_all_reduce(
      *group, stream, sum, nodes, device::view_of(apart.data(), 3), workspace, Reduction::fast);

  EXPECT_EQ(node, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(apart, node);
  EXPECT_EQ(tree_sum_scalars(*group, sum, leaf_values(4), 1),
            std::vector<double>{tree_sum(leaf_values(4))});
}

TEST(TreeReduceScatter, RefusesWrongSizesAndDtypes) {
  auto group = make_self_group("tensor");
  const ShardSum sum(4, 1, 0);
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  std::vector<float> floats(4);
  std::vector<double> doubles(4);
  const std::array<device::View, 1> nodes = {device::view_of(floats.data(), 4)};
  const std::array<Range, 1> ranges = {Range{0, 4}};
  const auto call = [&](device::View result) {
    tree_reduce_scatter(*group, stream, sum, nodes, ranges, result, workspace, Reduction::exact);
  };

  EXPECT_THROW(call(device::view_of(floats.data(), 3)), Error);
  EXPECT_THROW(call(device::view_of(doubles.data(), 4)), Error);
  EXPECT_NO_THROW(call(device::view_of(floats.data(), 4)));
}

}  // namespace
}  // namespace cambium::comm
