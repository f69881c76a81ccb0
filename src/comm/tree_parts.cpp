// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_parts.hpp"

#include <algorithm>
#include <cstring>

namespace cambium::comm {
namespace {

// Elements that one thread carries through all steps of the tree while they are in its cache.
constexpr dim_t kBlock = 4096;
// Below this many added elements a second thread costs more than it saves.
constexpr dim_t kWorthThreads = 1 << 16;
constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
void add(T* to, const T* left, const T* right, dim_t n) {
#pragma GCC ivdep  // `to` is one of the inputs or apart from them, never shifted against them
  for (dim_t i = 0; i < n; ++i) {
    to[i] = left[i] + right[i];
  }
}

template <typename T>
void run_additions_of(device::Stream& stream, std::span<const Addition> additions, dim_t elements) {
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

std::size_t head_bytes(const ShardSum& sum) {
  return aligned(3 * sum.global.first_slot.size() * sizeof(std::size_t) +
                 static_cast<std::size_t>(sum.global.slots) * sizeof(void*) +
                 sum.global.steps.size() * sizeof(Addition));
}

// The steps of the tree as additions.
void lay_additions(
    const ShardSum& sum, TreeTables& tables, char* spare, std::size_t own_bytes, void* result) {
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

}  // namespace

void run_additions(device::Stream& stream,
                   std::span<const Addition> additions,
                   dim_t elements,
                   device::DType dtype) {
  if (dtype == device::DType::f32) {
    run_additions_of<float>(stream, additions, elements);
  } else {
    run_additions_of<double>(stream, additions, elements);
  }
}

std::size_t tree_tables_bytes(const ShardSum& sum, std::size_t own_bytes) {
  return head_bytes(sum) + static_cast<std::size_t>(sum.global.slots) * own_bytes;
}

TreeTables lay_tables(const ShardSum& sum, void* workspace) {
  char* at = static_cast<char*>(workspace);
  const auto take = [&at]<typename T>(std::span<T>& table, std::size_t n) {
    table = {reinterpret_cast<T*>(at), n};
    at += n * sizeof(T);
  };
  const std::size_t ranks = sum.global.first_slot.size();
  TreeTables tables;
  take(tables.sent_offsets, ranks);
  take(tables.sent_bytes, ranks);
  take(tables.received_bytes, ranks);
  take(tables.place, static_cast<std::size_t>(sum.global.slots));
  take(tables.additions, sum.global.steps.size());
  tables.payload = static_cast<char*>(workspace) + head_bytes(sum);
  return tables;
}

std::size_t rounds_of(const ShardSum& sum) {
  std::size_t rounds = 0;
  for (const auto& of_rank : sum.global.nodes_by_rank) {
    rounds = std::max(rounds, of_rank.size());
  }
  return rounds;
}

void add_arrived(device::Stream& stream,
                 const ShardSum& sum,
                 TreeTables& tables,
                 char* spare,
                 dim_t own,
                 device::DType dtype,
                 void* result) {
  if (own == 0) {
    return;
  }
  const std::size_t own_bytes = static_cast<std::size_t>(own) * device::bytes_of(dtype);
  if (sum.global.steps.empty()) {
    if (result != tables.place[0]) {
      std::memmove(result, tables.place[0], own_bytes);
    }
    return;
  }
  lay_additions(sum, tables, spare, own_bytes, result);
  run_additions(stream, tables.additions, own, dtype);
}

}  // namespace cambium::comm
