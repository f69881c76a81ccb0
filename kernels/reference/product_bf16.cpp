// kernels/reference/product_bf16.cpp — one chain per output, by pairs, the odd one first. What
// `vdpbf16ps` does with denormals is spelled out here in ordinary arithmetic, so that it holds on
// every machine and whatever the float mode.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/product_bf16.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

using device::BFloat16;
using device::DType;
using device::round_to_bf16;
using device::to_float;

constexpr float kSmallestNormal = std::numeric_limits<float>::min();  // 2^-126

#define CAMBIUM_ALWAYS_INLINE inline __attribute__((always_inline))

CAMBIUM_ALWAYS_INLINE float flushed(float value) {
  return std::fabs(value) < kSmallestNormal ? std::copysign(0.0F, value) : value;
}

// Whether a*b + c, rounded to 24 bits with no lower limit of the exponent, is below 2^-126: then
// the processor flushes it. a, b are bf16: their product is exact in f64, and so is the pair
// (sum, rest). The nearest number of 24 bits below 2^-126 is 2^-126 (1 - 2^-24); half-way between
// them the even one, 2^-126, is taken.
inline bool is_tiny(float a, float b, float c) {
  constexpr double kHalfWay = 0x1p-126 * (1 - 0x1p-25);
  const double product = static_cast<double>(a) * b;
  const double sum = product + c;
  const double part = sum - product;
  const double rest = (product - (sum - part)) + (c - part);
  const double size = std::fabs(sum);
  return size < kHalfWay || (size == kHalfWay && (sum > 0 ? rest : -rest) < 0);
}

// One step of a chain: denormals in (a and b are flushed already) and out count as zero.
CAMBIUM_ALWAYS_INLINE float step(float a, float b, float acc) {
  const float start = flushed(acc);
  const float next = std::fma(a, b, start);
  if (std::fabs(next) <= kSmallestNormal && next != 0 && is_tiny(a, b, start)) {
    return std::copysign(0.0F, next);
  }
  return next;
}

CAMBIUM_ALWAYS_INLINE float element(const View& v, dim_t row, dim_t col) {
  return v.dtype == DType::bf16 ? to_float(v.as<BFloat16>()[row * v.stride + col])
                                : v.as<float>()[row * v.stride + col];
}

CAMBIUM_ALWAYS_INLINE void store(const View& v, dim_t row, dim_t col, float value) {
  if (v.dtype == DType::bf16) {
    v.as<BFloat16>()[row * v.stride + col] = round_to_bf16(value);
  } else {
    v.as<float>()[row * v.stride + col] = value;
  }
}

// A factor: bf16, or an f32 master rounded to it.
CAMBIUM_ALWAYS_INLINE float factor(const View& v, dim_t row, dim_t col) {
  return flushed(to_float(v.dtype == DType::bf16 ? v.as<BFloat16>()[row * v.stride + col]
                                                 : round_to_bf16(element(v, row, col))));
}

// The chain of `sum` products left(s) * right(s), s ascending by pairs.
template <typename Left, typename Right>
CAMBIUM_ALWAYS_INLINE float chain(dim_t sum, float acc, Left&& left, Right&& right) {
  for (dim_t s = 0; s < sum; s += 2) {
    const bool is_pair = s + 1 < sum;
    acc = step(is_pair ? left(s + 1) : 0.0F, is_pair ? right(s + 1) : 0.0F, acc);
    acc = step(left(s), right(s), acc);
  }
  return acc;
}

// Calls body(row, col) for the elements of `out` in `rows`.
template <typename Body>
void for_elements(const View& out, Range rows, const Body& body) {
  run_best([&]() __attribute__((always_inline)) {
    for (dim_t r = rows.begin; r < rows.end; ++r) {
      for (dim_t c = 0; c < out.cols; ++c) {
        body(r, c);
      }
    }
  });
}

float start_of(const View& out, Accumulate accumulate, dim_t row, dim_t col) {
  return accumulate == Accumulate::yes ? element(out, row, col) : 0.0F;
}

}  // namespace

void compute_bf16(const ProductForward& a, Range rows) {
  for_elements(
      a.y, rows, [&](dim_t m, dim_t n) __attribute__((always_inline)) {
        float value = chain(
            a.x.cols,
            start_of(a.y, a.accumulate, m, n),
            [&](dim_t k) __attribute__((always_inline)) { return factor(a.x, m, k); },
            [&](dim_t k) __attribute__((always_inline)) { return factor(a.w.plain, n, k); });
        if (!a.bias.empty()) {
          value = value + element(a.bias, 0, n);
        }
        if (!a.residual.empty()) {
          value = element(a.residual, m, n) + value;
        }
        store(a.y, m, n, value);
      });
}

void compute_bf16(const ProductBackwardInput& a, Range rows) {
  for_elements(
      a.dx, rows, [&](dim_t m, dim_t k) __attribute__((always_inline)) {
        store(a.dx,
              m,
              k,
              chain(
                  a.dy.cols,
                  start_of(a.dx, a.accumulate, m, k),
                  [&](dim_t n) __attribute__((always_inline)) { return factor(a.dy, m, n); },
                  [&](dim_t n) __attribute__((always_inline)) { return factor(a.w.plain, n, k); }));
      });
}

void compute_bf16(const ProductBackwardWeight& a, Range rows) {
  for_elements(
      a.dw, rows, [&](dim_t n, dim_t k) __attribute__((always_inline)) {
        store(a.dw,
              n,
              k,
              chain(
                  a.dy.rows,
                  start_of(a.dw, a.accumulate, n, k),
                  [&](dim_t m) __attribute__((always_inline)) { return factor(a.dy, m, n); },
                  [&](dim_t m) __attribute__((always_inline)) { return factor(a.x, m, k); }));
      });
}

}  // namespace cambium::kernels::reference
