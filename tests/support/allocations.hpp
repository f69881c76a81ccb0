// tests/support/allocations.hpp — counts operator new and aligned_alloc (device::Buffer) of a
// test's binary. Include it in one source of a binary only. What C libraries take by malloc (MPI
// does) is not ours to count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace cambium::testing {

inline std::atomic<int> allocations{0};

inline void* counted(void* memory) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

// How many allocations `call` makes.
template <typename F>
int allocations_of(F&& call) {
  const int before = allocations.load();
  call();
  return allocations.load() - before;
}

}  // namespace cambium::testing

void* operator new(std::size_t bytes) {
  return cambium::testing::counted(std::malloc(bytes == 0 ? 1 : bytes));
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return cambium::testing::counted(::memalign(static_cast<std::size_t>(alignment), bytes));
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

// Stands before the C library's in this binary. Its callers expect null, not an exception.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  cambium::testing::allocations.fetch_add(1, std::memory_order_relaxed);
  return ::memalign(alignment, bytes);
}
