// tests/kernels/product_bf16_cases.hpp — operands of bf16 products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "tests/kernels/product_cases.hpp"

namespace cambium::kernels::testing {

using device::BFloat16;
using device::DType;
using device::round_to_bf16;
using device::to_float;
using device::view_of;

// Values in bf16, with room for a stride and a guard around.
struct Narrow {
  dim_t rows;
  dim_t cols;
  dim_t stride;
  std::vector<BFloat16> values;

  explicit Narrow(const Matrix& m, dim_t gap = 0)
      : rows(m.rows),
        cols(m.cols),
        stride(m.cols + gap),
        values(static_cast<std::size_t>(m.rows * (m.cols + gap)), BFloat16{0x7e7e}) {
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        values[static_cast<std::size_t>(r * stride + c)] = round_to_bf16(m.at(r, c));
      }
    }
  }

  [[nodiscard]] View view() {
    return {values.data(), rows, cols, stride, DType::bf16};
  }

  [[nodiscard]] Matrix wide() const {
    Matrix m(rows, cols);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        m.at(r, c) = to_float(values[static_cast<std::size_t>(r * stride + c)]);
      }
    }
    return m;
  }
};

// An f32 master with bf16 panels.
class PackedPairs {
 public:
  PackedPairs(Stream& stream, Matrix plain)
      : plain_(std::move(plain)),
        forward_(elements(plain_.rows, plain_.cols), BFloat16{0x7e7e}),
        transposed_(elements(plain_.cols, plain_.rows), BFloat16{0x7e7e}) {
    pack_weight(stream, weight());
  }

  PackedPairs(const PackedPairs&) = delete;
  PackedPairs& operator=(const PackedPairs&) = delete;

  [[nodiscard]] Weight weight() {
    return {plain_.view(),
            view_of(forward_.data(), static_cast<dim_t>(forward_.size())),
            view_of(transposed_.data(), static_cast<dim_t>(transposed_.size()))};
  }

  [[nodiscard]] const std::vector<BFloat16>& forward() const {
    return forward_;
  }

  [[nodiscard]] const std::vector<BFloat16>& transposed() const {
    return transposed_;
  }

 private:
  static std::size_t elements(dim_t columns, dim_t k) {
    return static_cast<std::size_t>(packed_elements(columns, k, DType::bf16));
  }

  Matrix plain_;
  std::vector<BFloat16> forward_;
  std::vector<BFloat16> transposed_;
};

}  // namespace cambium::kernels::testing
