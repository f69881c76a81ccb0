// comm/tree_sum.hpp — sums over logical shards in the fixed tree order, whoever holds the shards
// (design.md §1, rule 4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/tree.hpp"
#include "comm/group.hpp"
#include "device/buffer.hpp"
#include "device/stream.hpp"

namespace cambium::comm {

enum class Reduction { exact, fast };  // parallel.reduction

// How `leaves` logical shards of one axis lie on the ranks of `group`: rank r holds share(leaves,
// size, r). Built once per axis; holds no memory of the payload.
struct ShardSum {
  ShardSum(dim_t leaves, int ranks, int rank);

  SumTree tree;
  LocalSum local;    // how this rank sums its own leaves while they arrive
  GlobalSum global;  // how all ranks' maximal subtrees become the total
  int rank;
};

// What the calls below need of `workspace` for sums of `elements` of which this rank gets `own`: to
// size it beforehand.
[[nodiscard]] std::size_t tree_workspace_bytes(
    const ShardSum& sum, dim_t elements, dim_t own, device::DType dtype, Reduction reduction);

// Each rank passes its maximal subtrees' buffers (local.nodes.size() of them, each `elements` long,
// dtype f32 or f64), and gets, in `result`, elements [ranges[rank]) of the total. ranges ascend and
// may be empty or ragged. Bytes sent per rank: its subtrees' elements that belong to others: a
// ring's bytes when it holds one. `fast`: local sum, then the library's all-reduce order. `nodes`
// stay as they are, but for the part that is `result`. Collective over: group. result may alias the
// matching part of nodes[0]. One all_to_all per subtree of the fullest rank.
void tree_reduce_scatter(Group& group,
                         device::Stream& stream,
                         const ShardSum& sum,
                         std::span<const device::View> nodes,  // each (1, elements)
                         std::span<const Range> ranges,        // by rank, in elements
                         device::View result,                  // (1, ranges[rank].size())
                         device::Buffer& workspace,            // grown when too small, then kept
                         Reduction reduction);

// The same with the whole total on every rank: reduce-scatter over share(elements), then
// all-gather. Where the subtrees are so short that latency counts (8 KiB to all others together),
// every rank gets them whole and adds for itself: the same bits, one exchange. Collective over:
// group. result (1, elements) may alias nodes[0].
void tree_all_reduce(Group& group,
                     device::Stream& stream,
                     const ShardSum& sum,
                     std::span<const device::View> nodes,
                     device::View result,
                     device::Buffer& workspace,
                     Reduction reduction);

// Whether an all-reduce of so many bytes goes that way.
[[nodiscard]] bool is_sent_whole(const ShardSum& sum, std::size_t bytes);

// For scalars: every rank passes `width` values per logical shard that it holds; returns the tree
// sums on every rank. Collective over: group.
[[nodiscard]] std::vector<double> tree_sum_scalars(
    Group& group,
    const ShardSum& sum,
    std::span<const double> leaves,  // held shards × width, shard-major
    dim_t width);

}  // namespace cambium::comm
