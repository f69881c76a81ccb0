// kernels/cpu/lanes_bf16-inl.hpp — 16 bf16 of memory as Floats: widened when loaded, rounded to
// nearest even when stored.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_LANES_BF16_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_LANES_BF16_INL
#undef CAMBIUM_KERNELS_CPU_LANES_BF16_INL
#else
#define CAMBIUM_KERNELS_CPU_LANES_BF16_INL
#endif

#include <cstring>

#include "device/bfloat16.hpp"
#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

using device::BFloat16;
using HalfTag = hn::Rebind<std::uint16_t, FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;

HWY_INLINE hn::Vec<FloatTag> widened(hn::Vec<HalfTag> halves) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), halves)));
}

// round_to_bf16 of device/bfloat16.hpp. IsNaN, since Highway's Ne is false for NaN on x86.
HWY_INLINE hn::Vec<HalfTag> rounded_halves(hn::Vec<FloatTag> value) {
  const WordTag words;
  const auto bits = hn::BitCast(words, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(words, 1U));
  const auto nearest = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(words, 0x7fffU)), odd));
  const auto quiet = hn::Or(upper, hn::Set(words, 0x40U));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  const auto half = hn::IfThenElse(is_nan, quiet, nearest);
  return hn::TruncateTo(HalfTag(), half);
}

HWY_INLINE const std::uint16_t* halves_of(const BFloat16* at) {
  return reinterpret_cast<const std::uint16_t*>(at);
}

HWY_INLINE Floats load(const BFloat16* from) {
  CAMBIUM_EACH(Floats, widened(hn::LoadU(HalfTag(), halves_of(from) + i * kLanesEach)));
}

HWY_INLINE void store(const Floats& x, BFloat16* to) {
  for (std::size_t i = 0; i < kRegisters; ++i) {
    hn::StoreU(
        rounded_halves(x.r[i]), HalfTag(), reinterpret_cast<std::uint16_t*>(to) + i * kLanesEach);
  }
}

// A ragged end goes through 16 values of our own: AVX2 has no masked moves of 16 bits.
HWY_INLINE Floats load_part(const BFloat16* from, dim_t n) {
  alignas(32) BFloat16 all[16] = {};
  std::memcpy(all, from, static_cast<std::size_t>(n) * sizeof(BFloat16));
  return load(all);
}

HWY_INLINE void store_part(const Floats& x, BFloat16* to, dim_t n) {
  alignas(32) BFloat16 all[16];
  store(x, all);
  std::memcpy(to, all, static_cast<std::size_t>(n) * sizeof(BFloat16));
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
