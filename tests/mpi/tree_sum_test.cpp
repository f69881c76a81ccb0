// tests/mpi/tree_sum_test.cpp — the order of a sum is the tree's, whoever holds the leaves, bit for
// bit.
// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "support/bits.hpp"
#include "support/mpi_main.hpp"

namespace cambium::comm {
namespace {

using cambium::testing::world;
using device::View;

constexpr std::array<dim_t, 7> kLeaves = {1, 2, 3, 4, 6, 8, 12};

// Element e of leaf i: magnitudes over 2^20, so that nearly every other order rounds otherwise.
template <typename T>
T leaf_value(dim_t i, dim_t e) {
  const RandomStream stream(99, Purpose::probe, static_cast<std::uint64_t>(i));
  const auto n = static_cast<std::uint64_t>(e);
  return static_cast<T>(std::ldexp(stream.normal_at(n), static_cast<int>(stream.below_at(n, 20))));
}

template <typename T>
std::vector<T> wanted_sum(dim_t leaves, dim_t elements) {
  std::vector<T> sums;
  for (dim_t e = 0; e < elements; ++e) {
    std::vector<T> column;
    for (dim_t i = 0; i < leaves; ++i) {
      column.push_back(leaf_value<T>(i, e));
    }
    sums.push_back(tree_sum(column));
  }
  return sums;
}

// This rank's maximal subtrees, summed as a step of training does it.
template <typename T>
struct Held {
  std::vector<std::vector<T>> buffers;
  std::vector<View> nodes;

  Held(const ShardSum& sum, int ranks, dim_t elements) {
    const Range held = share(sum.tree.leaves(), ranks, sum.rank);
    buffers.assign(static_cast<std::size_t>(sum.local.buffers),
                   std::vector<T>(static_cast<std::size_t>(elements)));
    for (dim_t i = 0; i < held.size(); ++i) {
      auto& leaf =
          buffers[static_cast<std::size_t>(sum.local.leaf_buffer[static_cast<std::size_t>(i)])];
      for (dim_t e = 0; e < elements; ++e) {
        leaf[static_cast<std::size_t>(e)] = leaf_value<T>(held.begin + i, e);
      }
      for (const AddStep& step : sum.local.after[static_cast<std::size_t>(i)]) {
        for (std::size_t e = 0; e < leaf.size(); ++e) {
          buffers[static_cast<std::size_t>(step.to)][e] +=
              buffers[static_cast<std::size_t>(step.from)][e];
        }
      }
    }
    for (const dim_t b : sum.local.node_buffer) {
      nodes.push_back(device::view_of(buffers[static_cast<std::size_t>(b)].data(), elements));
    }
  }
};

template <typename T>
std::vector<T> slice(const std::vector<T>& values, Range range) {
  return {values.begin() + range.begin, values.begin() + range.end};
}

// Ragged: rank 0 has nothing, the others ever more, the last the rest.
std::vector<Range> ragged_ranges(dim_t elements, int ranks) {
  std::vector<Range> ranges;
  dim_t begin = 0;
  for (int r = 0; r < ranks; ++r) {
    const dim_t end = r + 1 == ranks ? elements : std::min<dim_t>(elements, begin + r * r * 3);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

std::vector<Range> even_ranges(dim_t elements, int ranks) {
  std::vector<Range> ranges;
  for (int r = 0; r < ranks; ++r) {
    ranges.push_back(share(elements, ranks, r));
  }
  return ranges;
}

template <typename T>
void check_reduce_scatter(dim_t leaves, dim_t elements, const std::vector<Range>& ranges) {
  Group& group = world().group();
  const ShardSum sum(leaves, group.size(), group.rank());
  const Range own = ranges[static_cast<std::size_t>(group.rank())];
  const std::vector<T> want = slice(wanted_sum<T>(leaves, elements), own);
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  Held<T> held(sum, group.size(), elements);
  const auto before = held.buffers;
  std::vector<T> apart(static_cast<std::size_t>(own.size()));

  tree_reduce_scatter(group,
                      stream,
                      sum,
                      held.nodes,
                      ranges,
                      device::view_of(apart.data(), own.size()),
                      workspace,
                      Reduction::exact);

  EXPECT_BITS_EQ(apart, want) << leaves << " leaves, " << elements << " elements";
  EXPECT_EQ(held.buffers, before) << "the nodes were written";
  if (!held.nodes.empty()) {
    const View in_place = held.nodes[0].slice_cols(own);
    tree_reduce_scatter(
        group, stream, sum, held.nodes, ranges, in_place, workspace, Reduction::exact);
    EXPECT_BITS_EQ(std::span<const T>(in_place.as<T>(), want.size()), want) << "in place";
  } else {
    tree_reduce_scatter(group,
                        stream,
                        sum,
                        held.nodes,
                        ranges,
                        device::view_of(apart.data(), own.size()),
                        workspace,
                        Reduction::exact);
  }
}

TEST(TreeReduceScatter, HasTheTreesBitsForEveryNumberOfLeaves) {
  for (const dim_t leaves : kLeaves) {
    for (const dim_t elements : {1, 7, 100}) {
      check_reduce_scatter<float>(leaves, elements, even_ranges(elements, world().size()));
      check_reduce_scatter<float>(leaves, elements, ragged_ranges(elements, world().size()));
      check_reduce_scatter<double>(leaves, elements, ragged_ranges(elements, world().size()));
    }
  }
}

TEST(TreeReduceScatter, APlainAscendingSumHasOtherBits) {
  for (const dim_t leaves : {4, 6, 8, 12}) {
    const std::vector<float> tree = wanted_sum<float>(leaves, 100);
    int different = 0;
    for (dim_t e = 0; e < 100; ++e) {
      float plain = leaf_value<float>(0, e);
      for (dim_t i = 1; i < leaves; ++i) {
        plain += leaf_value<float>(i, e);
      }
      different += plain != tree[static_cast<std::size_t>(e)] ? 1 : 0;
    }
    EXPECT_GT(different, 10) << leaves << " leaves: these values can't tell the orders apart";
  }
}

TEST(TreeAllReduce, HasTheTreesBitsOnEveryRankForAnyNumberOfThreads) {
  Group& group = world().group();
  for (const dim_t leaves : kLeaves) {
    for (const dim_t elements : {1, 5, 2500, 30000}) {
      if (elements > 10000 && leaves != 6 && leaves != 4) {
        continue;  // the long ones only split the work over threads
      }
      const ShardSum sum(leaves, group.size(), group.rank());
      const std::vector<float> want = wanted_sum<float>(leaves, elements);
      device::Stream stream(device::Backend::cpu, elements > 10000 ? 2 : 1);
      device::Buffer workspace(tree_workspace_bytes(
          sum, elements, ceil_div(elements, group.size()), device::DType::f32, Reduction::exact));
      const void* const memory = workspace.data();
      Held<float> held(sum, group.size(), elements);
      std::vector<float> got(static_cast<std::size_t>(elements), -1);

      tree_all_reduce(group,
                      stream,
                      sum,
                      held.nodes,
                      device::view_of(got.data(), elements),
                      workspace,
                      Reduction::exact);

      EXPECT_BITS_EQ(got, want) << leaves << " leaves, " << elements << " elements";
      EXPECT_EQ(workspace.data(), memory) << "tree_workspace_bytes was too small";
      const View in_place =
          held.nodes.empty() ? device::view_of(got.data(), elements) : held.nodes[0];
      tree_all_reduce(group, stream, sum, held.nodes, in_place, workspace, Reduction::exact);
      EXPECT_BITS_EQ(std::span<const float>(in_place.as<float>(), want.size()), want) << "in place";
    }
  }
}

TEST(TreeAllReduce, SendsARingsBytesWhenARankHoldsOneSubtree) {
  Group& group = world().group();
  const int ranks = group.size();
  const dim_t elements = 6000 * ranks;
  const ShardSum sum(ranks, ranks, group.rank());
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  Held<float> held(sum, ranks, elements);
  const std::int64_t before = group.bytes_sent();

  tree_all_reduce(group, stream, sum, held.nodes, held.nodes[0], workspace, Reduction::exact);

  EXPECT_EQ(group.bytes_sent() - before, 2 * (ranks - 1) * 6000 * 4);
}

TEST(TreeAllReduce, SendsAShortSubtreeWholeToEachOther) {
  Group& group = world().group();
  const ShardSum sum(group.size(), group.size(), group.rank());
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  Held<float> held(sum, group.size(), 60);
  const std::int64_t before = group.bytes_sent();

  tree_all_reduce(group, stream, sum, held.nodes, held.nodes[0], workspace, Reduction::exact);

  EXPECT_EQ(group.bytes_sent() - before, (group.size() - 1) * 60 * 4);
}

TEST(TreeReduceScatter, SendsEachSubtreeOnceToEachOther) {
  Group& group = world().group();
  const int ranks = group.size();
  const dim_t elements = 10 * ranks;
  const ShardSum sum(3 * ranks, ranks, group.rank());
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  Held<double> held(sum, ranks, elements);
  std::vector<double> got(10);
  const std::int64_t before = group.bytes_sent();

  tree_reduce_scatter(group,
                      stream,
                      sum,
                      held.nodes,
                      even_ranges(elements, ranks),
                      device::view_of(got.data(), 10),
                      workspace,
                      Reduction::exact);

  EXPECT_EQ(group.bytes_sent() - before,
            static_cast<std::int64_t>(held.nodes.size()) * (ranks - 1) * 10 * 8);
}

TEST(TreeAllReduce, FastIsCloseAndEqualOnAllRanks) {
  Group& group = world().group();
  const ShardSum sum(12, group.size(), group.rank());
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  Held<double> held(sum, group.size(), 50);
  const std::vector<double> want = wanted_sum<double>(12, 50);
  const Range own = share(50, group.size(), group.rank());
  std::vector<double> got(50);
  std::vector<double> part(static_cast<std::size_t>(own.size()));

  tree_all_reduce(
      group, stream, sum, held.nodes, device::view_of(got.data(), 50), workspace, Reduction::fast);
  tree_reduce_scatter(group,
                      stream,
                      sum,
                      held.nodes,
                      even_ranges(50, group.size()),
                      device::view_of(part.data(), own.size()),
                      workspace,
                      Reduction::fast);

  EXPECT_CLOSE(got, want, {.rtol = 1e-9, .atol = 1e-6});
  EXPECT_CLOSE(part, slice(want, own), {.rtol = 1e-9, .atol = 1e-6});
}

TEST(TreeSumScalars, HasTheTreesBitsForEveryNumberOfLeaves) {
  Group& group = world().group();
  constexpr dim_t width = 3;
  for (const dim_t leaves : kLeaves) {
    const ShardSum sum(leaves, group.size(), group.rank());
    const Range held = share(leaves, group.size(), group.rank());
    std::vector<double> own;
    for (dim_t i = held.begin; i < held.end; ++i) {
      for (dim_t w = 0; w < width; ++w) {
        own.push_back(leaf_value<double>(i, w));
      }
    }

    const std::vector<double> got = tree_sum_scalars(group, sum, own, width);

    EXPECT_BITS_EQ(got, wanted_sum<double>(leaves, width)) << leaves << " leaves";
  }
}

TEST(TreeReduceScatter, RefusesAPlanOfAnotherGroup) {
  Group& group = world().group();
  const ShardSum sum(6, group.size() + 1, 0);
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  std::vector<float> data(6);

  EXPECT_THROW(
      tree_all_reduce(
          group, stream, sum, {}, device::view_of(data.data(), 6), workspace, Reduction::exact),
      Error);
}

}  // namespace
}  // namespace cambium::comm
