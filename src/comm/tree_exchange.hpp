// comm/tree_exchange.hpp — a reduce-scatter in the tree's order (tree_sum.hpp, Reduction::exact)
// whose messages travel while the rank does other work. The bits are the blocking call's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/tree_parts.hpp"

namespace cambium::comm {

// start, test as often as wanted, finish; then the next one. Ranks start theirs in the same order;
// several objects of one group may be under way at once, also with one tag. A step allocates
// nothing when Group::reserve_requests was told of messages().
class TreeExchange {
 public:
  TreeExchange(Group& group, const ShardSum& sum, int tag);

  // Most messages of one exchange that are under way at once, sends and receives.
  [[nodiscard]] std::size_t messages() const {
    return requests_.capacity();
  }

  // Of a workspace for an exchange that leaves `own` elements on this rank.
  [[nodiscard]] std::size_t workspace_bytes(dim_t own, device::DType dtype) const;

  // Posts every message and returns. Nodes, ranges and workspace stay untouched until finish();
  // nodes (1, elements) as in tree_reduce_scatter, result (1, ranges[rank].size()) may lie in
  // nodes[0] where the own range stands. Not collective, but every rank of the group must start its
  // side. Bytes sent: those of tree_reduce_scatter.
  void start(std::span<const device::View> nodes,
             std::span<const Range> ranges,  // by rank, in elements
             device::View result,
             device::Buffer& workspace);

  // Whether everything has arrived and left, so that finish() will not wait.
  [[nodiscard]] bool test();

  // Waits for what is under way, then adds.
  void finish(device::Stream& stream);

  [[nodiscard]] bool is_under_way() const {
    return is_under_way_;
  }

 private:
  void post_round(std::size_t k, std::span<const device::View> nodes, char* arrived);

  Group& group_;
  const ShardSum& sum_;
  int tag_;
  TreeTables tables_;
  std::vector<Request> requests_;
  std::size_t tested_ = 0;  // requests before it are over
  char* spare_ = nullptr;
  device::View result_;
  bool is_under_way_ = false;
};

}  // namespace cambium::comm
