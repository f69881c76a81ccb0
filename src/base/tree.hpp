// base/tree.hpp — the one order in which logical shards are summed, whoever holds them.
// Neighbours (2i, 2i+1) are added while the count is even, then the rest ascending (design.md §1,
// rule 4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace cambium {

// The binary tree over `leaves` leaves. Nodes 0 … leaves-1 are the leaves; an inner node is left +
// right in that order.
class SumTree {
 public:
  explicit SumTree(dim_t leaves);

  struct Node {
    Range leaves;     // the consecutive leaves below it
    dim_t left = -1;  // node indices; -1 for a leaf
    dim_t right = -1;
    dim_t parent = -1;  // -1 for the root
  };

  [[nodiscard]] dim_t leaves() const {
    return leaves_;
  }

  [[nodiscard]] dim_t root() const {
    return static_cast<dim_t>(nodes_.size()) - 1;
  }

  [[nodiscard]] const Node& node(dim_t i) const {
    return nodes_[static_cast<std::size_t>(i)];
  }

  // The maximal subtrees whose leaves all lie in `held`, ascending by first leaf: what a rank
  // sends.
  [[nodiscard]] std::vector<dim_t> maximal_subtrees(Range held) const;

 private:
  dim_t leaves_;
  std::vector<Node> nodes_;
};

// slots[to] += slots[from]. Executed in order.
struct AddStep {
  dim_t to;
  dim_t from;

  bool operator==(const AddStep&) const = default;
};

// Sums one rank's leaves into its maximal subtrees while they arrive ascending.
// Leaf held.begin + i is written into buffer leaf_buffer[i]; then the steps after[i] run. In the
// end node_buffer[j] holds the j-th maximal subtree. Buffers are reused: `buffers` is the number
// needed at once (ceil(log2 n) + 1 for an aligned run).
struct LocalSum {
  std::vector<dim_t> leaf_buffer;
  std::vector<std::vector<AddStep>> after;
  std::vector<dim_t> nodes;
  std::vector<dim_t> node_buffer;
  dim_t buffers = 0;
};

[[nodiscard]] LocalSum plan_local_sum(const SumTree& tree, Range held);

// The same where all held leaves already stand in slots 0 … held.size()-1. The j-th maximal subtree
// ends in the slot of its first leaf.
struct ResidentSum {
  std::vector<AddStep> steps;
  std::vector<dim_t> node_slot;
};

[[nodiscard]] ResidentSum plan_resident_sum(const SumTree& tree, Range held);

// Sums the maximal subtrees of all ranks. Slot order: the ranks ascending, each with its maximal
// subtrees ascending (so by first leaf when the ranks' ranges ascend). After the steps slot 0 holds
// the total.
struct GlobalSum {
  std::vector<std::vector<dim_t>> nodes_by_rank;
  std::vector<dim_t> first_slot;  // of each rank
  std::vector<AddStep> steps;
  dim_t slots = 0;
};

[[nodiscard]] GlobalSum plan_global_sum(const SumTree& tree,
                                        const std::vector<Range>& held_by_rank);

// The tree sum of plain values; what stands in them is lost. For scalars.
template <typename T>
T tree_sum_in_place(std::span<T> values) {
  if (values.empty()) {
    return T{};
  }
  std::size_t n = values.size();
  while (n > 1 && n % 2 == 0) {
    for (std::size_t i = 0; i < n / 2; ++i) {
      values[i] = values[2 * i] + values[2 * i + 1];
    }
    n /= 2;
  }
  T total = values[0];
  for (std::size_t i = 1; i < n; ++i) {
    total = total + values[i];
  }
  return total;
}

// The same of a copy.
template <typename T>
T tree_sum(std::vector<T> values) {
  return tree_sum_in_place(std::span(values));
}

}  // namespace cambium
