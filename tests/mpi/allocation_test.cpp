// tests/mpi/allocation_test.cpp — collectives of a step take no memory after the first call.
// Counts operator new of this binary; MPI's own malloc is not ours to count.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "comm/tree_sum.hpp"
#include "support/mpi_main.hpp"

namespace {

std::atomic<int> allocations{0};

}  // namespace

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace cambium::comm {
namespace {

using cambium::testing::world;

template <typename F>
int allocations_after_first(F&& call) {
  call();
  const int before = allocations.load();
  call();
  call();
  return allocations.load() - before;
}

TEST(Collectives, TakeNoMemoryAfterTheFirstCall) {
  Group& group = world().group();
  const auto n = static_cast<std::size_t>(group.size());
  const std::vector<std::size_t> bytes(n, 64);
  std::vector<std::size_t> offsets(n);
  for (std::size_t r = 0; r < n; ++r) {
    offsets[r] = 64 * r;
  }
  std::vector<char> sent(64 * n);
  std::vector<char> received(64 * n);

  EXPECT_EQ(allocations_after_first([&] { group.all_gather(sent.data(), bytes, received.data()); }),
            0);
  EXPECT_EQ(allocations_after_first(
                [&] { group.all_to_all(sent.data(), offsets, bytes, received.data(), bytes); }),
            0);
}

TEST(TreeAllReduce, TakesNoMemoryAfterTheFirstCall) {
  Group& group = world().group();
  const ShardSum sum(12, group.size(), group.rank());
  device::Stream stream(device::Backend::cpu, 1);
  device::Buffer workspace;
  std::vector<float> data(1000 * sum.local.nodes.size(), 1.0F);
  std::vector<device::View> nodes;
  for (std::size_t i = 0; i < sum.local.nodes.size(); ++i) {
    nodes.push_back(device::view_of(data.data() + 1000 * i, 1000));
  }
  std::vector<float> total(1000);

  const int taken = allocations_after_first([&] {
    tree_all_reduce(group,
                    stream,
                    sum,
                    nodes,
                    device::view_of(total.data(), 1000),
                    workspace,
                    Reduction::exact);
  });

  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace cambium::comm
