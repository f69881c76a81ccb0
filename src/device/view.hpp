// device/view.hpp — a matrix in somebody else's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "base/types.hpp"
#include "device/bfloat16.hpp"

namespace cambium::device {

enum class DType : std::uint8_t { f32, f64, bf16, i32 };

[[nodiscard]] constexpr std::size_t bytes_of(DType t) {
  switch (t) {
    case DType::f64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
  }
  return 0;
}

template <typename T>
struct DTypeOf;

template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};

template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};

template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};

template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};

// (rows, cols) elements; row r starts at data + r * stride elements. A vector is one row. Borrows.
struct View {
  void* data = nullptr;
  dim_t rows = 0;
  dim_t cols = 0;
  dim_t stride = 0;
  DType dtype = DType::f32;

  [[nodiscard]] bool empty() const {
    return data == nullptr || rows == 0 || cols == 0;
  }

  [[nodiscard]] dim_t size() const {
    return rows * cols;
  }

  [[nodiscard]] bool is_contiguous() const {
    return rows <= 1 || stride == cols;
  }

  // Throws Error(bug) when T is not the dtype.
  template <typename T>
  [[nodiscard]] T* as() const {
    CAMBIUM_CHECK(data == nullptr || DTypeOf<T>::value == dtype, "view of another dtype");
    return static_cast<T*>(data);
  }

  [[nodiscard]] View slice_rows(Range r) const {
    return {static_cast<char*>(data) + static_cast<std::size_t>(r.begin * stride) * bytes_of(dtype),
            r.size(),
            cols,
            stride,
            dtype};
  }

  [[nodiscard]] View slice_cols(Range c) const {
    return {static_cast<char*>(data) + static_cast<std::size_t>(c.begin) * bytes_of(dtype),
            rows,
            c.size(),
            stride,
            dtype};
  }
};

template <typename T>
[[nodiscard]] View view_of(T* data, dim_t rows, dim_t cols) {
  return {data, rows, cols, cols, DTypeOf<T>::value};
}

template <typename T>
[[nodiscard]] View view_of(T* data, dim_t size) {
  return {data, 1, size, size, DTypeOf<T>::value};
}

}  // namespace cambium::device
