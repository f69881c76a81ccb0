// layers/memory_plan.hpp — several matrices in one allocation, each on a 64-byte boundary, each
// with its own element type; or in memory that several plans share because they are in use one
// after the other. What stands between them in an allocation of its own belongs to nobody and stays
// zero.
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
    place(buffer, 0);
    return buffer;
  }

  // The views point into `memory`, `offset` bytes behind its begin (a multiple of 64).
  void place(const device::Buffer& memory, std::size_t offset) {
    for (const Wanted& w : wanted_) {
      *w.view = memory.view(w.dtype, w.rows, w.cols, offset + w.offset);
    }
  }

  [[nodiscard]] std::size_t bytes() const {
    return bytes_;
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
