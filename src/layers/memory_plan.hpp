// layers/memory_plan.hpp — several matrices in one allocation, each on a 64-byte boundary, each
// with its own element type. What stands between them belongs to nobody and stays zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "device/buffer.hpp"

namespace cambium::layers {

class MemoryPlan {
 public:
  // `view` points into the memory once allocate() was called; it must outlive that call.
  void add(device::View& view, device::DType dtype, dim_t rows, dim_t cols) {
    wanted_.push_back({&view, dtype, rows, cols, bytes_});
    const std::size_t size = static_cast<std::size_t>(rows * cols) * device::bytes_of(dtype);
    bytes_ += (size + 63) / 64 * 64;
  }

  [[nodiscard]] device::Buffer allocate(device::Arena& arena) {
    device::Buffer buffer = arena.allocate(bytes_);
    for (const Wanted& w : wanted_) {
      *w.view = buffer.view(w.dtype, w.rows, w.cols, w.offset);
    }
    return buffer;
  }

 private:
  struct Wanted {
    device::View* view;
    device::DType dtype;
    dim_t rows;
    dim_t cols;
    std::size_t offset;
  };

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
