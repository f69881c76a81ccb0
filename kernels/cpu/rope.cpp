// kernels/cpu/rope.cpp — a head is turned in place, 16 pairs at a time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/rope.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void turn_row(const Rope& a, Turn turn, dim_t row) {
  const dim_t half = a.head_width / 2;
  const float* cosine = a.cosine.as<float>() + row / a.batch * a.cosine.stride;
  const float* sine = a.sine.as<float>() + row / a.batch * a.sine.stride;
  for (dim_t first = 0; first < a.x.cols; first += a.head_width) {
    T* low = a.x.as<T>() + row * a.x.stride + first;
    T* high = low + half;
    each_vector(0, half, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      const Floats c = part.load(cosine + e);
      const Floats s = turn == Turn::forward ? part.load(sine + e) : negated(part.load(sine + e));
      const Floats lo = part.load(low + e);
      const Floats hi = part.load(high + e);
      part.store(fma_less(lo, c, hi * s), low + e);
      part.store(fma(hi, c, lo * s), high + e);
    });
  }
}

template <typename T>
void rope_of(Stream& stream, const Rope& a, Turn turn) {
  split(stream, a.x.rows, 2 * a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      turn_row<T>(a, turn, row);
    }
  });
}

void rope(Stream& stream, const Rope& a, Turn turn) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA { rope_of<decltype(type)>(stream, a, turn); });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(rope);

void rope(Stream& stream, const Rope& a, Turn turn) {
  HWY_DYNAMIC_DISPATCH(rope)(stream, a, turn);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
