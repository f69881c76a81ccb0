// kernels/reference/math.hpp — exp and log as this project defines them, and the order of row sums,
// in scalar code. f32: own polynomials from + - * / fma and integer operations only, so that
// kernels/cpu/math-inl.hpp repeats them bit for bit in vectors; over all floats at most 0.91 ulp
// (exp)
// and 0.84 ulp (log) from the true value. f64: libm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/types.hpp"

// Helpers are inlined by force into the functions of copies.hpp, whose target has the fma
// instruction.
#define CAMBIUM_INLINE [[gnu::always_inline]] inline

namespace cambium::kernels::reference {

// Lanes of a row sum whatever the vector width (design.md §1.12).
inline constexpr dim_t kLanes = 16;

CAMBIUM_INLINE float fma_of(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

CAMBIUM_INLINE double fma_of(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

CAMBIUM_INLINE float sqrt_of(float x) {
  return __builtin_sqrtf(x);
}

CAMBIUM_INLINE double sqrt_of(double x) {
  return __builtin_sqrt(x);
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, then 1 + r + r^2 q(r) with a minimax q of degree 4,
// then times 2^n in two factors, so that denormal results are rounded once. Below -104 zero, above
// 89 infinity, NaN stays NaN.
CAMBIUM_INLINE float exp_of(float x) {
  constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kLn2High = 0x1.62e4p-1F;  // 15 bits: n * kLn2High is exact
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  x = x < -104.0F ? -104.0F : x;
  x = x > 89.0F ? 89.0F : x;
  const float t = fma_of(x, kLog2E, kToInteger);
  const float n = t - kToInteger;
  float r = fma_of(n, -kLn2High, x);
  r = fma_of(n, -kLn2Low, r);
  float p = 0x1.6a2318p-10F;
  p = fma_of(p, r, 0x1.123a8ep-7F);
  p = fma_of(p, r, 0x1.5558f6p-5F);
  p = fma_of(p, r, 0x1.555490p-3F);
  p = fma_of(p, r, 0x1.fffffcp-2F);
  p = fma_of(p, r, 1.0F);
  p = fma_of(p, r, 1.0F);
  const auto whole = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(t) -
                                               std::bit_cast<std::uint32_t>(kToInteger));
  const std::int32_t half = whole >> 1;
  const std::uint32_t bias = 127;
  const std::uint32_t first = (static_cast<std::uint32_t>(half) + bias) << 23;
  const std::uint32_t second =
      (static_cast<std::uint32_t>(whole) - static_cast<std::uint32_t>(half) + bias) << 23;
  return (p * std::bit_cast<float>(first)) * std::bit_cast<float>(second);
}

CAMBIUM_INLINE double exp_of(double x) {
  return std::exp(x);
}

// ln x: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), then with s = f / (2 + f) the odd
// series of log(1+s) - log(1-s), coefficients of FreeBSD's e_logf.c. 0 gives -infinity, negative
// and NaN give NaN.
CAMBIUM_INLINE float log_of(float x) {
  constexpr float kTwo25 = 33554432.0F;
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3;
  const bool small = x < std::numeric_limits<float>::min();
  const float scaled = small ? x * kTwo25 : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const float k = static_cast<float>(exponent) + (small ? -25.0F : 0.0F);
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0F;
  const float s = f / (2.0F + f);
  const float z = s * s;
  float series = 0xf89e26.0p-26F;
  series = fma_of(series, z, 0x91e9ee.0p-25F);
  series = fma_of(series, z, 0xccce13.0p-25F);
  series = fma_of(series, z, 0xaaaaaa.0p-24F);
  series = series * z;
  const float half_square = (0.5F * f) * f;
  float low = s * (half_square + series);
  low = fma_of(k, 0x1.2fefa2p-17F, low);  // ln 2 - the high part below
  const float value = fma_of(k, 0x1.62e3p-1F, (low - half_square) + f);
  const float infinity = std::numeric_limits<float>::infinity();
  if (x == 0.0F) {
    return -infinity;
  }
  if (!(x > 0.0F)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return x == infinity ? infinity : value;
}

CAMBIUM_INLINE double log_of(double x) {
  return std::log(x);
}

// 1 / (1 + e^-x).
template <typename T>
CAMBIUM_INLINE T sigmoid_of(T x) {
  return T{1} / (T{1} + exp_of(-x));
}

// Greater of two where a NaN in `x` is ignored; lets a maximum be taken in any order.
template <typename T>
CAMBIUM_INLINE T larger(T x, T best) {
  return x > best ? x : best;
}

// A row sum of design.md §1.12: lane j takes elements j, j+16, … ascending; total() adds
// neighbours, pair by pair.
template <typename T>
class LaneSum {
 public:
  CAMBIUM_INLINE void add(dim_t i, T x) {
    lanes_[static_cast<std::size_t>(i % kLanes)] += x;
  }

  CAMBIUM_INLINE void add_product(dim_t i, T a, T b) {
    T& lane = lanes_[static_cast<std::size_t>(i % kLanes)];
    lane = fma_of(a, b, lane);
  }

  [[nodiscard]] CAMBIUM_INLINE T total() const {
    std::array<T, 16> sums = lanes_;
    for (std::size_t count = 8; count > 0; count /= 2) {
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
    }
    return sums[0];
  }

 private:
  std::array<T, 16> lanes_{};
};

}  // namespace cambium::kernels::reference
