// comm/tree_parts.hpp — what the blocking tree sums (tree_sum.hpp) and the exchange that goes on
// beside other work (tree_exchange.hpp) share: where arriving subtrees lie, and the additions of
// the tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "comm/tree_sum.hpp"

namespace cambium::comm {

// One addition of whole arrays: to = left + right. `to` may be either of them.
struct Addition {
  void* to;
  const void* left;
  const void* right;
};

// Runs them in order, each over all elements; blocks of elements stay in a thread's cache through
// all of them.
void run_additions(device::Stream& stream,
                   std::span<const Addition> additions,
                   dim_t elements,
                   device::DType dtype);

// What one sum needs beside the payload, laid at the head of the workspace so that a step allocates
// nothing.
struct TreeTables {
  std::span<std::size_t> sent_offsets;    // by rank, of the round in work
  std::span<std::size_t> sent_bytes;      // by rank, of the round in work
  std::span<std::size_t> received_bytes;  // by rank, of the round in work
  std::span<void*> place;                 // by slot: where its elements of the own range lie
  std::span<Addition> additions;          // one a step
  char* payload = nullptr;
};

// Of a workspace for a sum whose own range has `own_bytes`.
[[nodiscard]] std::size_t tree_tables_bytes(const ShardSum& sum, std::size_t own_bytes);

[[nodiscard]] TreeTables lay_tables(const ShardSum& sum, void* workspace);

// Most subtrees that a rank holds: a message from every rank to every other in each round.
[[nodiscard]] std::size_t rounds_of(const ShardSum& sum);

// Who sends what in round k, which moves the k-th subtree of every rank that has one; range_of(r)
// are the elements that rank r sums. What arrives lies from `arrived` on, by rank. Returns the
// first byte behind it.
template <typename RangeOf>
char* lay_round(const ShardSum& sum,
                std::span<const device::View> nodes,
                const RangeOf& range_of,
                std::size_t element_bytes,
                std::size_t k,
                char* arrived,
                TreeTables& tables) {
  const std::size_t own_bytes = static_cast<std::size_t>(range_of(sum.rank).size()) * element_bytes;
  for (std::size_t i = 0; i < sum.global.nodes_by_rank.size(); ++i) {
    const int r = static_cast<int>(i);
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
  return arrived;
}

// Adds what stands in tables.place, all arrived, into `result` (own elements). The nodes are the
// caller's and stay as they are: a partial sum that would fall onto one goes behind `spare`
// instead. Only the last addition writes `result`, which may lie in nodes[0].
void add_arrived(device::Stream& stream,
                 const ShardSum& sum,
                 TreeTables& tables,
                 char* spare,
                 dim_t own,
                 device::DType dtype,
                 void* result);

}  // namespace cambium::comm
