// tests/kernels/product_cases.hpp — the three products seen as one, and matrices to feed them.
//
// Every product is out[i,j] = sum over s of left(i,s) * right(j,s). A test that is written for this
// form checks all of them; the adapters below transpose where a product wants its operands so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "device/stream.hpp"
#include "kernels/product.hpp"

namespace cambium::kernels::testing {

// Values in memory of our own, rows without gaps.
struct Matrix {
  dim_t rows = 0;
  dim_t cols = 0;
  std::vector<float> values;

  Matrix(dim_t r, dim_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}

  [[nodiscard]] float& at(dim_t r, dim_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }

  [[nodiscard]] float at(dim_t r, dim_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }

  [[nodiscard]] View view() {
    return device::view_of(values.data(), rows, cols);
  }

  [[nodiscard]] Matrix transposed() const {
    Matrix t(cols, rows);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        t.at(c, r) = at(r, c);
      }
    }
    return t;
  }

  // Columns appended, with zeros in them.
  [[nodiscard]] Matrix widened(dim_t zeros) const {
    Matrix wide(rows, cols + zeros);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        wide.at(r, c) = at(r, c);
      }
    }
    return wide;
  }

  [[nodiscard]] Matrix part_of_rows(Range range) const {
    Matrix part(range.size(), cols);
    for (dim_t r = 0; r < part.rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        part.at(r, c) = at(range.begin + r, c);
      }
    }
    return part;
  }

  // Row r of the result is row order(r) of this.
  template <typename F>
  [[nodiscard]] Matrix reordered(F&& order) const {
    Matrix moved(rows, cols);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        moved.at(r, c) = at(order(r), c);
      }
    }
    return moved;
  }
};

// Values of many sizes: mostly ordinary, some denormal, some huge, some zeros of both signs. Sums
// of them round differently in almost every order.
inline Matrix some_matrix(dim_t rows, dim_t cols, std::uint64_t seed) {
  Matrix m(rows, cols);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (float& value : m.values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto bits = static_cast<std::uint32_t>(state >> 33);
    const float unit = static_cast<float>(bits & 0xffff) / 65536.0F - 0.5F;
    switch (bits >> 27) {  // 4 bits
      case 0:
        value = unit * 1e-38F;
        break;
      case 1:
        value = unit * 1e-41F;
        break;
      case 2:
        value = unit * 1e4F;
        break;
      case 3:
        value = (bits & 1) != 0 ? 0.0F : -0.0F;
        break;
      default:
        value = unit;
        break;
    }
  }
  return m;
}

// Only tiny numbers, whose products and sums are denormal or vanish.
inline Matrix tiny_matrix(dim_t rows, dim_t cols, std::uint64_t seed) {
  Matrix m = some_matrix(rows, cols, seed);
  for (float& value : m.values) {
    value = std::ldexp(std::fmod(value, 1.0F), -70);
  }
  return m;
}

// The definition: what every product must give, bit for bit.
inline Matrix chain(const Matrix& left, const Matrix& right) {
  Matrix out(left.rows, right.rows);
  for (dim_t i = 0; i < out.rows; ++i) {
    for (dim_t j = 0; j < out.cols; ++j) {
      float acc = 0;
      for (dim_t s = 0; s < left.cols; ++s) {
        acc = std::fma(left.at(i, s), right.at(j, s), acc);
      }
      out.at(i, j) = acc;
    }
  }
  return out;
}

// A weight with its panels. Holds its memory; the copy of a Packed would point into the original.
class Packed {
 public:
  Packed(Stream& stream, Matrix plain)
      : plain_(std::move(plain)),
        forward_(static_cast<std::size_t>(packed_elements(plain_.rows, plain_.cols)), kPoison),
        transposed_(static_cast<std::size_t>(packed_elements(plain_.cols, plain_.rows)), kPoison) {
    pack_weight(stream, weight());
  }

  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  [[nodiscard]] Weight weight() {
    return {plain_.view(),
            device::view_of(forward_.data(), static_cast<dim_t>(forward_.size())),
            device::view_of(transposed_.data(), static_cast<dim_t>(transposed_.size()))};
  }

  [[nodiscard]] const std::vector<float>& forward() const {
    return forward_;
  }

  [[nodiscard]] const std::vector<float>& transposed() const {
    return transposed_;
  }

 private:
  static constexpr float kPoison = 777.0F;

  Matrix plain_;
  std::vector<float> forward_;
  std::vector<float> transposed_;
};

// out(i,j) from left(i,s) and right(j,s), on a stream.
using ProductFunction = std::function<Matrix(Stream&, const Matrix& left, const Matrix& right)>;

inline Matrix forward_product(Stream& stream, const Matrix& left, const Matrix& right) {
  Matrix x = left;
  Packed w(stream, right);
  Matrix y(left.rows, right.rows);
  product_forward(stream, {.x = x.view(), .w = w.weight(), .y = y.view()});
  return y;
}

// dx[m,k] = sum_n dy[m,n] W[n,k]: right(k,n) is W transposed.
inline Matrix backward_input_product(Stream& stream, const Matrix& left, const Matrix& right) {
  Matrix dy = left;
  Packed w(stream, right.transposed());
  Matrix dx(left.rows, right.rows);
  product_backward_input(stream, {.dy = dy.view(), .w = w.weight(), .dx = dx.view()});
  return dx;
}

// dw[n,k] = sum_m dy[m,n] x[m,k]: both operands come transposed.
inline Matrix backward_weight_product(Stream& stream, const Matrix& left, const Matrix& right) {
  Matrix dy = left.transposed();
  Matrix x = right.transposed();
  Matrix dw(left.rows, right.rows);
  product_backward_weight(stream, {.dy = dy.view(), .x = x.view(), .dw = dw.view()});
  return dw;
}

}  // namespace cambium::kernels::testing
