// tests/kernels/bf16_cases.hpp — the same activations in f32 and bf16, and what a kernel made of
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <type_traits>
#include <vector>

#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {

using device::BFloat16;
using device::round_to_bf16;
using device::to_float;

inline float wide(float value) {
  return value;
}

inline float wide(BFloat16 value) {
  return to_float(value);
}

template <typename T>
T narrow(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return round_to_bf16(value);
  } else {
    return to_float(round_to_bf16(value));
  }
}

// Activations: the same values in f32 and in bf16.
template <typename T>
Sheet<T> activations(dim_t rows, dim_t cols, dim_t gap, std::uint64_t seed) {
  Sheet<float> values(rows, cols);
  values.random(seed).with_special_values();
  Sheet<T> sheet(rows, cols, gap);
  for (dim_t r = 0; r < rows; ++r) {
    for (dim_t c = 0; c < cols; ++c) {
      sheet.at(r, c) = narrow<T>(values.at(r, c));
    }
  }
  return sheet;
}

// Gains, tables, statistics: f32 whatever the activations are.
inline Sheet<float> masters(dim_t rows, dim_t cols, std::uint64_t seed) {
  Sheet<float> sheet(rows, cols);
  sheet.random(seed);
  return sheet;
}

// What a kernel wrote: activations widened, and what stays f32. Each sheet must have kept its
// frame.
struct Written {
  std::vector<float> activations;
  std::vector<float> masters;

  template <typename T>
  Written& add(Sheet<T>& sheet) {
    EXPECT_TRUE(sheet.is_framed()) << "activations " << activations.size() << " on";
    for (const T value : sheet.values()) {
      activations.push_back(wide(value));
    }
    return *this;
  }

  Written& keep(Sheet<float>& sheet) {
    EXPECT_TRUE(sheet.is_framed()) << "masters " << masters.size() << " on";
    const std::vector<float> values = sheet.values();
    masters.insert(masters.end(), values.begin(), values.end());
    return *this;
  }
};

template <typename T>
Sheet<T> output(dim_t rows, dim_t cols, dim_t gap) {
  return Sheet<T>(rows, cols, gap);
}

}  // namespace cambium::kernels::testing
