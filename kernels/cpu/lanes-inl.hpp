// kernels/cpu/lanes-inl.hpp — 16 floats as one value: one AVX-512 register or two AVX2 registers.
// All kernels are written in it once, so that lanes, and with them bits, do not depend on the ISA
// (design.md §1.12).
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_LANES_INL
#undef CAMBIUM_KERNELS_CPU_LANES_INL
#else
#define CAMBIUM_KERNELS_CPU_LANES_INL
#endif

#include <cstddef>
#include <cstdint>
#include <hwy/highway.h>

#include "base/types.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;

inline constexpr dim_t kLanes = 16;
inline constexpr std::size_t kLanesEach = hn::MaxLanes(FloatTag());
inline constexpr std::size_t kRegisters = 16 / kLanesEach;

struct Floats {
  hn::Vec<FloatTag> r[kRegisters];
};

struct Ints {
  hn::Vec<IntTag> r[kRegisters];
};

struct Flags {
  hn::Mask<FloatTag> r[kRegisters];
};

// Applies an expression of `i` to each register.
#undef CAMBIUM_EACH
#define CAMBIUM_EACH(type, expression)           \
  type result;                                   \
  for (std::size_t i = 0; i < kRegisters; ++i) { \
    result.r[i] = expression;                    \
  }                                              \
  return result

HWY_INLINE Floats broadcast(float x) {
  CAMBIUM_EACH(Floats, hn::Set(FloatTag(), x));
}

HWY_INLINE Floats zeros() {
  CAMBIUM_EACH(Floats, hn::Zero(FloatTag()));
}

HWY_INLINE Floats load(const float* from) {
  CAMBIUM_EACH(Floats, hn::LoadU(FloatTag(), from + i * kLanesEach));
}

HWY_INLINE void store(const Floats& x, float* to) {
  for (std::size_t i = 0; i < kRegisters; ++i) {
    hn::StoreU(x.r[i], FloatTag(), to + i * kLanesEach);
  }
}

// Lanes below n.
HWY_INLINE Flags first_lanes(dim_t n) {
  const auto count = static_cast<std::size_t>(n);
  CAMBIUM_EACH(
      Flags,
      hn::FirstN(FloatTag(),
                 count > i * kLanesEach ? HWY_MIN(count - i * kLanesEach, kLanesEach) : 0));
}

// n < 16 elements, zeros behind; touches no memory behind them.
HWY_INLINE Floats load_part(const float* from, dim_t n) {
  const Flags flags = first_lanes(n);
  CAMBIUM_EACH(Floats, hn::MaskedLoad(flags.r[i], FloatTag(), from + i * kLanesEach));
}

HWY_INLINE void store_part(const Floats& x, float* to, dim_t n) {
  const Flags flags = first_lanes(n);
  for (std::size_t i = 0; i < kRegisters; ++i) {
    hn::BlendedStore(x.r[i], flags.r[i], FloatTag(), to + i * kLanesEach);
  }
}

HWY_INLINE Floats operator+(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Floats, hn::Add(a.r[i], b.r[i]));
}

HWY_INLINE Floats operator-(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Floats, hn::Sub(a.r[i], b.r[i]));
}

HWY_INLINE Floats operator*(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Floats, hn::Mul(a.r[i], b.r[i]));
}

HWY_INLINE Floats operator/(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Floats, hn::Div(a.r[i], b.r[i]));
}

// a * b + c, rounded once.
HWY_INLINE Floats fma(const Floats& a, const Floats& b, const Floats& c) {
  CAMBIUM_EACH(Floats, hn::MulAdd(a.r[i], b.r[i], c.r[i]));
}

// c - a * b, rounded once.
HWY_INLINE Floats negative_fma(const Floats& a, const Floats& b, const Floats& c) {
  CAMBIUM_EACH(Floats, hn::NegMulAdd(a.r[i], b.r[i], c.r[i]));
}

// a * b - c, rounded once.
HWY_INLINE Floats fma_less(const Floats& a, const Floats& b, const Floats& c) {
  CAMBIUM_EACH(Floats, hn::MulSub(a.r[i], b.r[i], c.r[i]));
}

HWY_INLINE Floats negated(const Floats& a) {
  CAMBIUM_EACH(Floats, hn::Neg(a.r[i]));
}

HWY_INLINE Floats square_root(const Floats& a) {
  CAMBIUM_EACH(Floats, hn::Sqrt(a.r[i]));
}

// x > best ? x : best, the x86 instruction: a NaN in `x` is ignored, and one in `best` stays.
HWY_INLINE Floats larger(const Floats& x, const Floats& best) {
  CAMBIUM_EACH(Floats, hn::Max(x.r[i], best.r[i]));
}

// x < best ? x : best.
HWY_INLINE Floats smaller(const Floats& x, const Floats& best) {
  CAMBIUM_EACH(Floats, hn::Min(x.r[i], best.r[i]));
}

HWY_INLINE Flags less(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Flags, hn::Lt(a.r[i], b.r[i]));
}

HWY_INLINE Flags equal(const Floats& a, const Floats& b) {
  CAMBIUM_EACH(Flags, hn::Eq(a.r[i], b.r[i]));
}

HWY_INLINE Floats select(const Flags& flags, const Floats& yes, const Floats& no) {
  CAMBIUM_EACH(Floats, hn::IfThenElse(flags.r[i], yes.r[i], no.r[i]));
}

HWY_INLINE Floats select_or_zero(const Flags& flags, const Floats& yes) {
  CAMBIUM_EACH(Floats, hn::IfThenElseZero(flags.r[i], yes.r[i]));
}

HWY_INLINE Ints bits_of(const Floats& a) {
  CAMBIUM_EACH(Ints, hn::BitCast(IntTag(), a.r[i]));
}

HWY_INLINE Floats floats_of_bits(const Ints& a) {
  CAMBIUM_EACH(Floats, hn::BitCast(FloatTag(), a.r[i]));
}

HWY_INLINE Floats converted(const Ints& a) {
  CAMBIUM_EACH(Floats, hn::ConvertTo(FloatTag(), a.r[i]));
}

HWY_INLINE Ints broadcast_int(std::int32_t x) {
  CAMBIUM_EACH(Ints, hn::Set(IntTag(), x));
}

HWY_INLINE Ints operator+(const Ints& a, const Ints& b) {
  CAMBIUM_EACH(Ints, hn::Add(a.r[i], b.r[i]));
}

HWY_INLINE Ints operator-(const Ints& a, const Ints& b) {
  CAMBIUM_EACH(Ints, hn::Sub(a.r[i], b.r[i]));
}

template <int kBits>
HWY_INLINE Ints shifted_right(const Ints& a) {
  CAMBIUM_EACH(Ints, hn::ShiftRight<kBits>(a.r[i]));
}

template <int kBits>
HWY_INLINE Ints shifted_left(const Ints& a) {
  CAMBIUM_EACH(Ints, hn::ShiftLeft<kBits>(a.r[i]));
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
