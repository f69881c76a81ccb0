// layers/memory_plan.hpp — several matrices in one allocation, each on a 64-byte boundary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "device/buffer.hpp"

namespace cambium::layers {

class MemoryPlan {
 public:
  explicit MemoryPlan(device::DType dtype) : dtype_(dtype) {}

  // `view` points into the memory once allocate() was called; it must outlive that call.
  void add(device::View& view, dim_t rows, dim_t cols) {
    wanted_.push_back({&view, rows, cols, bytes_});
    const std::size_t size = static_cast<std::size_t>(rows * cols) * device::bytes_of(dtype_);
    bytes_ += (size + 63) / 64 * 64;
  }

  [[nodiscard]] device::Buffer allocate(device::Arena& arena) {
    device::Buffer buffer = arena.allocate(bytes_);
    for (const Wanted& w : wanted_) {
      *w.view = buffer.view(dtype_, w.rows, w.cols, w.offset);
    }
    return buffer;
  }

 private:
  struct Wanted {
    device::View* view;
    dim_t rows;
    dim_t cols;
    std::size_t offset;
  };

  device::DType dtype_;
  std::vector<Wanted> wanted_;
  std::size_t bytes_ = 0;
};

// Every element of `row` becomes the one element of `scalar`.
inline void spread_scalar(device::View scalar, device::View row) {
  if (row.dtype == device::DType::f64) {
    for (dim_t i = 0; i < row.cols; ++i) {
      row.as<double>()[i] = *scalar.as<double>();
    }
  } else {
    for (dim_t i = 0; i < row.cols; ++i) {
      row.as<float>()[i] = *scalar.as<float>();
    }
  }
}

}  // namespace cambium::layers
