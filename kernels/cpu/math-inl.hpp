// kernels/cpu/math-inl.hpp — exp and log of kernels/reference/math.hpp in 16 lanes: the same
// operations in the same order.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_MATH_INL
#undef CAMBIUM_KERNELS_CPU_MATH_INL
#else
#define CAMBIUM_KERNELS_CPU_MATH_INL
#endif

#include <limits>

#include "kernels/cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

HWY_INLINE Floats exp_of(const Floats& argument) {
  const Floats to_integer = broadcast(12582912.0F);
  // The bounds come first: a NaN argument is then the operand that larger and smaller keep.
  const Floats x = smaller(broadcast(89.0F), larger(broadcast(-104.0F), argument));
  const Floats t = fma(x, broadcast(0x1.715476p+0F), to_integer);
  const Floats n = t - to_integer;
  Floats r = negative_fma(n, broadcast(0x1.62e4p-1F), x);
  r = negative_fma(n, broadcast(0x1.7f7d1cp-20F), r);
  Floats p = broadcast(0x1.6a2318p-10F);
  p = fma(p, r, broadcast(0x1.123a8ep-7F));
  p = fma(p, r, broadcast(0x1.5558f6p-5F));
  p = fma(p, r, broadcast(0x1.555490p-3F));
  p = fma(p, r, broadcast(0x1.fffffcp-2F));
  p = fma(p, r, broadcast(1.0F));
  p = fma(p, r, broadcast(1.0F));
  const Ints whole = bits_of(t) - bits_of(to_integer);
  const Ints half = shifted_right<1>(whole);
  const Ints bias = broadcast_int(127);
  const Floats first = floats_of_bits(shifted_left<23>(half + bias));
  const Floats second = floats_of_bits(shifted_left<23>((whole - half) + bias));
  return (p * first) * second;
}

HWY_INLINE Floats log_of(const Floats& x) {
  const Ints sqrt_half = broadcast_int(0x3f3504f3);
  const Flags small = less(x, broadcast(std::numeric_limits<float>::min()));
  const Ints bits = bits_of(select(small, x * broadcast(33554432.0F), x));
  const Ints exponent = shifted_right<23>(bits - sqrt_half);
  const Floats k = converted(exponent) + select_or_zero(small, broadcast(-25.0F));
  const Floats f = floats_of_bits(bits - shifted_left<23>(exponent)) - broadcast(1.0F);
  const Floats s = f / (broadcast(2.0F) + f);
  const Floats z = s * s;
  Floats series = broadcast(0xf89e26.0p-26F);
  series = fma(series, z, broadcast(0x91e9ee.0p-25F));
  series = fma(series, z, broadcast(0xccce13.0p-25F));
  series = fma(series, z, broadcast(0xaaaaaa.0p-24F));
  series = series * z;
  const Floats half_square = (broadcast(0.5F) * f) * f;
  Floats low = s * (half_square + series);
  low = fma(k, broadcast(0x1.2fefa2p-17F), low);
  const Floats value = fma(k, broadcast(0x1.62e3p-1F), (low - half_square) + f);
  const Floats infinity = broadcast(std::numeric_limits<float>::infinity());
  const Floats nan = broadcast(std::numeric_limits<float>::quiet_NaN());
  const Floats positive = select(equal(x, infinity), infinity, value);
  const Floats ordered = select(less(zeros(), x), positive, nan);
  return select(equal(x, zeros()), negated(infinity), ordered);
}

HWY_INLINE Floats sigmoid_of(const Floats& x) {
  return broadcast(1.0F) / (broadcast(1.0F) + exp_of(negated(x)));
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
