// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "comm/tree_parts.hpp"

namespace cambium::comm {
namespace {

using device::DType;
using device::View;

// An all-reduce that sends no more than this to all others together does so whole, and every rank
// adds everything: one latency instead of two.
constexpr std::size_t kSmallMessage = 8192;

std::vector<Range> held_by_ranks(dim_t leaves, int ranks) {
  std::vector<Range> held;
  for (int r = 0; r < ranks; ++r) {
    held.push_back(share(leaves, ranks, r));
  }
  return held;
}

void check_call(const Group& group,
                const ShardSum& sum,
                std::span<const View> nodes,
                const View& result) {
  CAMBIUM_CHECK(static_cast<std::size_t>(group.size()) == sum.global.first_slot.size() &&
                    group.rank() == sum.rank,
                "the plan is of another group than " + group.name());
  CAMBIUM_CHECK(nodes.size() == sum.local.nodes.size(), "one buffer a maximal subtree");
  CAMBIUM_CHECK(result.dtype == DType::f32 || result.dtype == DType::f64,
                "tree sums are f32 or f64");
  CAMBIUM_CHECK(result.is_contiguous(), "the result of a tree sum has gaps");
  for (const View& node : nodes) {
    CAMBIUM_CHECK(node.dtype == result.dtype && node.is_contiguous(),
                  "nodes and result differ in dtype, or have gaps");
  }
}

TreeTables grow_tables(const ShardSum& sum, std::size_t own_bytes, device::Buffer& workspace) {
  const std::size_t needed = tree_tables_bytes(sum, own_bytes);
  if (workspace.bytes() < needed) {
    workspace = device::Buffer(needed);
  }
  return lay_tables(sum, workspace.data());
}

template <typename RangeOf>
void reduce_scatter(Group& group,
                    device::Stream& stream,
                    const ShardSum& sum,
                    std::span<const View> nodes,
                    const RangeOf& range_of,
                    void* result,
                    DType dtype,
                    TreeTables& tables) {
  char* arrived = tables.payload;
  for (std::size_t k = 0; k < rounds_of(sum); ++k) {
    char* const received = arrived;
    arrived = lay_round(sum, nodes, range_of, device::bytes_of(dtype), k, arrived, tables);
    if (group.size() > 1) {
      group.all_to_all(k < nodes.size() ? nodes[k].data : nullptr,
                       tables.sent_offsets,
                       tables.sent_bytes,
                       received,
                       tables.received_bytes);
    }
  }
  add_arrived(stream, sum, tables, arrived, range_of(sum.rank).size(), dtype, result);
}

// total = nodes[0] + nodes[1] + …, then the library's all-reduce.
void reduce_fast(Group& group,
                 device::Stream& stream,
                 std::span<const View> nodes,
                 const View& total) {
  const auto bytes = static_cast<std::size_t>(total.cols) * device::bytes_of(total.dtype);
  if (nodes.empty()) {
    std::memset(total.data, 0, bytes);
  } else if (total.data != nodes[0].data && bytes > 0) {
    std::memcpy(total.data, nodes[0].data, bytes);
  }
  for (std::size_t k = 1; k < nodes.size(); ++k) {
    const Addition addition{total.data, total.data, nodes[k].data};
    run_additions(stream, std::span(&addition, 1), total.cols, total.dtype);
  }
  const auto n = static_cast<std::size_t>(total.cols);
  if (total.dtype == DType::f32) {
    group.all_reduce(std::span(total.as<float>(), n), Reduce::sum);
  } else {
    group.all_reduce(std::span(total.as<double>(), n), Reduce::sum);
  }
}

}  // namespace

bool is_sent_whole(const ShardSum& sum, std::size_t bytes) {
  return bytes * (sum.global.first_slot.size() - 1) <= kSmallMessage;
}

ShardSum::ShardSum(dim_t leaves, int ranks, int own_rank)
    : tree(leaves),
      local(plan_local_sum(tree, share(leaves, ranks, own_rank))),
      global(plan_global_sum(tree, held_by_ranks(leaves, ranks))),
      rank(own_rank) {}

std::size_t tree_workspace_bytes(
    const ShardSum& sum, dim_t elements, dim_t own, DType dtype, Reduction reduction) {
  const std::size_t whole_bytes = static_cast<std::size_t>(elements) * device::bytes_of(dtype);
  const std::size_t own_bytes = static_cast<std::size_t>(own) * device::bytes_of(dtype);
  if (reduction == Reduction::fast) {
    return whole_bytes;
  }
  return tree_tables_bytes(sum, is_sent_whole(sum, whole_bytes) ? whole_bytes : own_bytes);
}

void tree_reduce_scatter(Group& group,
                         device::Stream& stream,
                         const ShardSum& sum,
                         std::span<const View> nodes,
                         std::span<const Range> ranges,
                         View result,
                         device::Buffer& workspace,
                         Reduction reduction) {
  check_call(group, sum, nodes, result);
  CAMBIUM_CHECK(ranges.size() == static_cast<std::size_t>(group.size()), "one range a rank");
  const Range own = ranges[static_cast<std::size_t>(sum.rank)];
  CAMBIUM_CHECK(own.size() == result.size(), "the result is not of the own range's size");
  const std::size_t element_bytes = device::bytes_of(result.dtype);
  const std::size_t own_bytes = static_cast<std::size_t>(own.size()) * element_bytes;
  if (reduction == Reduction::exact) {
    TreeTables tables = grow_tables(sum, own_bytes, workspace);
    const auto range_of = [&](int r) { return ranges[static_cast<std::size_t>(r)]; };
    reduce_scatter(group, stream, sum, nodes, range_of, result.data, result.dtype, tables);
    return;
  }
  dim_t elements = 0;
  for (const Range& range : ranges) {
    elements = std::max(elements, range.end);
  }
  if (workspace.bytes() < static_cast<std::size_t>(elements) * element_bytes) {
    workspace = device::Buffer(static_cast<std::size_t>(elements) * element_bytes);
  }
  const View total = workspace.view(result.dtype, 1, elements);
  reduce_fast(group, stream, nodes, total);
  if (own_bytes > 0) {
    std::memcpy(result.data, total.slice_cols(own).data, own_bytes);
  }
}

void tree_all_reduce(Group& group,
                     device::Stream& stream,
                     const ShardSum& sum,
                     std::span<const View> nodes,
                     View result,
                     device::Buffer& workspace,
                     Reduction reduction) {
  check_call(group, sum, nodes, result);
  const View whole{result.data, 1, result.size(), result.size(), result.dtype};
  if (whole.cols == 0) {
    return;
  }
  if (reduction == Reduction::fast) {
    reduce_fast(group, stream, nodes, whole);
    return;
  }
  const int ranks = group.size();
  const std::size_t element_bytes = device::bytes_of(result.dtype);
  const std::size_t whole_bytes = static_cast<std::size_t>(whole.cols) * element_bytes;
  if (is_sent_whole(sum, whole_bytes)) {
    TreeTables tables = grow_tables(sum, whole_bytes, workspace);
    const auto all = [&](int /*rank*/) { return Range{0, whole.cols}; };
    reduce_scatter(group, stream, sum, nodes, all, whole.data, result.dtype, tables);
    return;
  }
  const auto range_of = [&](int r) { return share(whole.cols, ranks, r); };
  const Range own = range_of(sum.rank);
  TreeTables tables =
      grow_tables(sum, static_cast<std::size_t>(own.size()) * element_bytes, workspace);
  void* const own_part = whole.slice_cols(own).data;
  reduce_scatter(group, stream, sum, nodes, range_of, own_part, result.dtype, tables);
  if (ranks > 1) {
    for (int r = 0; r < ranks; ++r) {
      tables.sent_bytes[static_cast<std::size_t>(r)] =
          static_cast<std::size_t>(range_of(r).size()) * element_bytes;
    }
    group.all_gather(own_part, tables.sent_bytes, whole.data);
  }
}

std::vector<double> tree_sum_scalars(Group& group,
                                     const ShardSum& sum,
                                     std::span<const double> leaves,
                                     dim_t width) {
  const dim_t shards = sum.tree.leaves();
  const int ranks = group.size();
  CAMBIUM_CHECK(
      static_cast<dim_t>(leaves.size()) == share(shards, ranks, group.rank()).size() * width,
      "one row of scalars a held shard");
  std::vector<std::size_t> bytes_by_rank;
  for (int r = 0; r < ranks; ++r) {
    bytes_by_rank.push_back(static_cast<std::size_t>(share(shards, ranks, r).size() * width) *
                            sizeof(double));
  }
  std::vector<double> all(static_cast<std::size_t>(shards * width));
  group.all_gather(leaves.data(), bytes_by_rank, all.data());
  std::vector<double> totals;
  std::vector<double> column(static_cast<std::size_t>(shards));
  for (dim_t w = 0; w < width; ++w) {
    for (dim_t i = 0; i < shards; ++i) {
      column[static_cast<std::size_t>(i)] = all[static_cast<std::size_t>(i * width + w)];
    }
    totals.push_back(tree_sum(column));
  }
  return totals;
}

}  // namespace cambium::comm
