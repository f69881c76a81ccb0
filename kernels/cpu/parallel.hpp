// kernels/cpu/parallel.hpp — static splits over the stream's threads, and no wake-up for little
// work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/types.hpp"
#include "device/stream.hpp"
#include "kernels/cpu/isa.hpp"

namespace cambium::kernels::cpu {

// Elements of cheap work (an add or two each) that one core does in about the time in which the
// pool wakes up.
inline constexpr dim_t kWorthWaking = 32768;

// Runs work(thread, range) over shares of [0, n); `cost` is the work of all n items, in elements of
// cheap work. Which thread does what never changes bits: callers only split independent outputs.
template <typename Work>
void split(device::Stream& stream, dim_t n, dim_t cost, const Work& work) {
  if (n <= 0) {
    return;
  }
  if (stream.pool().size() == 1 || n == 1 || cost < kWorthWaking) {
    set_float_mode();
    work(0, Range{0, n});
    return;
  }
  stream.pool().split(n, [&work](int thread, Range range) {
    set_float_mode();
    work(thread, range);
  });
}

// The same over blocks of `block` items: ranges start at multiples of it, so that threads do not
// share a cache line.
template <typename Work>
void split_blocks(device::Stream& stream, dim_t n, dim_t block, dim_t cost, const Work& work) {
  split(stream, ceil_div(n, block), cost, [&](int thread, Range blocks) {
    work(thread, Range{blocks.begin * block, std::min(n, blocks.end * block)});
  });
}

struct Shape {
  dim_t rows;
  dim_t cols;
};

// The shape of an element-wise loop: views without gaps between their rows are walked as one row.
template <typename... Views>
[[nodiscard]] Shape shape_of(const device::View& first, const Views&... others) {
  if (first.is_contiguous() && (others.is_contiguous() && ...)) {
    return {1, first.size()};
  }
  return {first.rows, first.cols};
}

// Calls work(row, columns) for all elements of `shape`, rows or (where there is one) columns over
// the threads.
template <typename Work>
void split_elements(device::Stream& stream, Shape shape, dim_t cost, const Work& work) {
  if (shape.rows == 1) {
    split_blocks(stream, shape.cols, 256, cost, [&](int, Range columns) { work(0, columns); });
    return;
  }
  split(stream, shape.rows, cost, [&](int, Range rows) {
    for (dim_t r = rows.begin; r < rows.end; ++r) {
      work(r, Range{0, shape.cols});
    }
  });
}

}  // namespace cambium::kernels::cpu
