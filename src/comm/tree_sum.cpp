// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace cambium::comm {
namespace {

using device::DType;
using device::View;

// Elements that one thread carries through all steps of the tree while they are in its cache.
constexpr dim_t kBlock = 4096;
// Below this many added elements a second thread costs more than it saves.
constexpr dim_t kWorthThreads = 1 << 16;
constexpr std::size_t kAlignment = 64;
// An all-reduce that sends no more than this to all others together does so whole, and every rank
// adds everything: one latency instead of two.
constexpr std::size_t kSmallMessage = 8192;

// One addition of whole arrays: to = left + right. `to` may be either of them.
struct Addition {
  void* to;
  const void* left;
  const void* right;
};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<Range> held_by_ranks(dim_t leaves, int ranks) {
  std::vector<Range> held;
  for (int r = 0; r < ranks; ++r) {
    held.push_back(share(leaves, ranks, r));
  }
  return held;
}

template <typename T>
void add(T* to, const T* left, const T* right, dim_t n) {
#pragma GCC ivdep  // `to` is one of the inputs or apart from them, never shifted against them
  for (dim_t i = 0; i < n; ++i) {
    to[i] = left[i] + right[i];
  }
}

template <typename T>
void run_additions(device::Stream& stream, std::span<const Addition> additions, dim_t elements) {
  const auto run = [&](Range range) {
    for (dim_t begin = range.begin; begin < range.end; begin += kBlock) {
      const dim_t n = std::min(kBlock, range.end - begin);
      for (const Addition& a : additions) {
        add(static_cast<T*>(a.to) + begin,
            static_cast<const T*>(a.left) + begin,
            static_cast<const T*>(a.right) + begin,
            n);
      }
    }
  };
  if (elements * static_cast<dim_t>(additions.size()) < kWorthThreads) {
    run({0, elements});
  } else {
    stream.pool().split(elements, [&](int /*thread*/, Range range) { run(range); });
  }
}

void run_additions(device::Stream& stream,
                   std::span<const Addition> additions,
                   dim_t elements,
                   DType dtype) {
  if (dtype == DType::f32) {
    run_additions<float>(stream, additions, elements);
  } else {
    run_additions<double>(stream, additions, elements);
  }
}

// What one call needs beside the payload, laid at the head of the workspace so that a step
// allocates nothing.
struct Tables {
  std::span<std::size_t> sent_offsets;
  std::span<std::size_t> sent_bytes;
  std::span<std::size_t> received_bytes;
  std::span<void*> place;         // by slot: where its elements of the own range lie
  std::span<Addition> additions;  // one a step
  char* payload = nullptr;

  static std::size_t head_bytes(std::size_t ranks, std::size_t slots, std::size_t steps) {
    return aligned(3 * ranks * sizeof(std::size_t) + slots * sizeof(void*) +
                   steps * sizeof(Addition));
  }

  Tables(void* memory, std::size_t ranks, std::size_t slots, std::size_t steps) {
    char* at = static_cast<char*>(memory);
    const auto take = [&at]<typename T>(std::span<T>& table, std::size_t n) {
      table = {reinterpret_cast<T*>(at), n};
      at += n * sizeof(T);
    };
    take(sent_offsets, ranks);
    take(sent_bytes, ranks);
    take(received_bytes, ranks);
    take(place, slots);
    take(additions, steps);
    payload = static_cast<char*>(memory) + head_bytes(ranks, slots, steps);
  }
};

bool is_small(const ShardSum& sum, std::size_t bytes) {
  return bytes * (sum.global.first_slot.size() - 1) <= kSmallMessage;
}

std::size_t workspace_bytes(const ShardSum& sum, std::size_t own_bytes) {
  const auto slots = static_cast<std::size_t>(sum.global.slots);
  return Tables::head_bytes(sum.global.first_slot.size(), slots, sum.global.steps.size()) +
         slots * own_bytes;
}

Tables lay_tables(const ShardSum& sum, std::size_t own_bytes, device::Buffer& workspace) {
  const std::size_t needed = workspace_bytes(sum, own_bytes);
  if (workspace.bytes() < needed) {
    workspace = device::Buffer(needed);
  }
  return {workspace.data(),
          sum.global.first_slot.size(),
          static_cast<std::size_t>(sum.global.slots),
          sum.global.steps.size()};
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

// Round k moves the k-th subtree of every rank that has one; what arrives lies by round, then by
// rank. Returns the first byte behind what has arrived.
template <typename RangeOf>
char* exchange(Group& group,
               const ShardSum& sum,
               std::span<const View> nodes,
               const RangeOf& range_of,
               std::size_t element_bytes,
               Tables& tables) {
  const int ranks = group.size();
  const std::size_t own_bytes = static_cast<std::size_t>(range_of(sum.rank).size()) * element_bytes;
  std::size_t rounds = 0;
  for (const auto& of_rank : sum.global.nodes_by_rank) {
    rounds = std::max(rounds, of_rank.size());
  }
  char* arrived = tables.payload;
  for (std::size_t k = 0; k < rounds; ++k) {
    char* const received = arrived;
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const Range range = range_of(r);
      const bool is_other = r != sum.rank;
      const bool sends = k < sum.global.nodes_by_rank[i].size();
      tables.sent_offsets[i] = static_cast<std::size_t>(range.begin) * element_bytes;
      tables.sent_bytes[i] =
          is_other && k < nodes.size() ? static_cast<std::size_t>(range.size()) * element_bytes : 0;
      tables.received_bytes[i] = is_other && sends ? own_bytes : 0;
      if (sends) {
        const auto slot = static_cast<std::size_t>(sum.global.first_slot[i]) + k;
        tables.place[slot] =
            is_other ? arrived : static_cast<char*>(nodes[k].data) + tables.sent_offsets[i];
        arrived += tables.received_bytes[i];
      }
    }
    if (ranks > 1) {
      group.all_to_all(k < nodes.size() ? nodes[k].data : nullptr,
                       tables.sent_offsets,
                       tables.sent_bytes,
                       received,
                       tables.received_bytes);
    }
  }
  return arrived;
}

// The steps of the tree as additions. The nodes are the caller's and stay as they are: a partial
// sum that would fall onto one goes to `spare` instead. Only the last addition writes `result`,
// which may lie in nodes[0].
void lay_additions(
    const ShardSum& sum, Tables& tables, char* spare, std::size_t own_bytes, void* result) {
  const dim_t first_own = sum.global.first_slot[static_cast<std::size_t>(sum.rank)];
  const Range own_slots{first_own, first_own + static_cast<dim_t>(sum.local.nodes.size())};
  const std::size_t steps = sum.global.steps.size();
  for (std::size_t i = 0; i < steps; ++i) {
    const AddStep& step = sum.global.steps[i];
    void*& left = tables.place[static_cast<std::size_t>(step.to)];
    void* to = left;
    if (i + 1 == steps) {
      to = result;
    } else if (own_slots.contains(step.to)) {
      to = spare + static_cast<std::size_t>(step.to - first_own) * own_bytes;
    }
    tables.additions[i] = {to, left, tables.place[static_cast<std::size_t>(step.from)]};
    left = to;
  }
}

template <typename RangeOf>
void reduce_scatter(Group& group,
                    device::Stream& stream,
                    const ShardSum& sum,
                    std::span<const View> nodes,
                    const RangeOf& range_of,
                    void* result,
                    DType dtype,
                    Tables& tables) {
  const std::size_t element_bytes = device::bytes_of(dtype);
  const dim_t own = range_of(sum.rank).size();
  const std::size_t own_bytes = static_cast<std::size_t>(own) * element_bytes;
  char* spare = exchange(group, sum, nodes, range_of, element_bytes, tables);
  if (own == 0) {
    return;
  }
  if (sum.global.steps.empty()) {
    if (result != tables.place[0]) {
      std::memmove(result, tables.place[0], own_bytes);
    }
    return;
  }
  lay_additions(sum, tables, spare, own_bytes, result);
  run_additions(stream, tables.additions, own, dtype);
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
  return workspace_bytes(sum, is_small(sum, whole_bytes) ? whole_bytes : own_bytes);
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
    Tables tables = lay_tables(sum, own_bytes, workspace);
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
  if (is_small(sum, whole_bytes)) {
    Tables tables = lay_tables(sum, whole_bytes, workspace);
    const auto all = [&](int /*rank*/) { return Range{0, whole.cols}; };
    reduce_scatter(group, stream, sum, nodes, all, whole.data, result.dtype, tables);
    return;
  }
  const auto range_of = [&](int r) { return share(whole.cols, ranks, r); };
  const Range own = range_of(sum.rank);
  Tables tables = lay_tables(sum, static_cast<std::size_t>(own.size()) * element_bytes, workspace);
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
