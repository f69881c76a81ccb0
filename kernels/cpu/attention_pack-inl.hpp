// kernels/cpu/attention_pack-inl.hpp — one head out of (T*batch, heads*E), packed by rows or by
// columns.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_ATTENTION_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_ATTENTION_PACK_INL
#undef CAMBIUM_KERNELS_CPU_ATTENTION_PACK_INL
#else
#define CAMBIUM_KERNELS_CPU_ATTENTION_PACK_INL
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/attention.hpp"
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// Row length of packed (T, E) operands: whole vectors, zeros behind E.
HWY_INLINE dim_t padded_width(dim_t width) {
  return ceil_div(width, kLanes) * kLanes;
}

// One head's columns of (T*batch, heads*E): row t of it is [t].
template <typename T>
struct Rows {
  T* first;
  dim_t step;

  Rows(T* first_row, dim_t elements) : first(first_row), step(elements) {}

  Rows(const View& v, dim_t batch, dim_t b, dim_t head, dim_t width)
      : first(v.as<std::remove_const_t<T>>() + b * v.stride + head * width),
        step(batch * v.stride) {}

  HWY_INLINE T* operator[](dim_t t) const {
    return first + t * step;
  }
};

template <typename T>
HWY_INLINE void pack_rows(const Rows<const T>& from, dim_t tokens, dim_t width, float* to) {
  const dim_t padded = padded_width(width);
  for (dim_t t = 0; t < tokens; ++t) {
    const T* row = from[t];
    each_vector(0, width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      store(part.load(row + e), to + t * padded + e);
    });
  }
}

template <typename T>
HWY_INLINE void unpack_rows(const float* from, dim_t tokens, dim_t width, const Rows<T>& to) {
  const dim_t padded = padded_width(width);
  for (dim_t t = 0; t < tokens; ++t) {
    T* row = to[t];
    each_vector(0, width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      part.store(load(from + t * padded + e), row + e);
    });
  }
}

using FourTag = hn::FixedTag<float, 4>;

HWY_INLINE hn::Vec<FourTag> load_four(const float* from) {
  return hn::LoadU(FourTag(), from);
}

HWY_INLINE hn::Vec<FourTag> load_four(const BFloat16* from) {
  const hn::Rebind<std::uint16_t, FourTag> halves;
  const hn::RebindToUnsigned<FourTag> words;
  const auto four = hn::PromoteTo(words, hn::LoadU(halves, halves_of(from)));
  return hn::BitCast(FourTag(), hn::ShiftLeft<16>(four));
}

HWY_INLINE float value_of(float value) {
  return value;
}

HWY_INLINE float value_of(BFloat16 value) {
  return device::to_float(value);
}

// Rows t … t+3, elements e … e+3, turned: element e of the four goes to to[0 … 3], e+1 one kKeyTile
// further.
template <typename T>
HWY_INLINE void turn_four(const Rows<const T>& from, dim_t t, dim_t e, float* to) {
  const FourTag tag;
  const hn::FixedTag<double, 2> pairs;
  const auto row0 = load_four(from[t] + e);
  const auto row1 = load_four(from[t + 1] + e);
  const auto row2 = load_four(from[t + 2] + e);
  const auto row3 = load_four(from[t + 3] + e);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(tag, row0, row1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(tag, row2, row3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row0, row1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row2, row3));
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, low01, low23)), tag, to);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, low01, low23)), tag, to + kKeyTile);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, high01, high23)), tag, to + 2 * kKeyTile);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, high01, high23)), tag, to + 3 * kKeyTile);
}

// Panels of kKeyTile tokens, (E, kKeyTile) each: key t of panel p is column t - p*kKeyTile. Columns
// behind the last token are zero up to a whole vector, and unwritten beyond.
template <typename T>
HWY_INLINE void pack_columns(const Rows<const T>& from, dim_t tokens, dim_t width, float* to) {
  for (dim_t first = 0; first < tokens; first += kKeyTile) {
    const dim_t n = std::min(kKeyTile, tokens - first);
    float* panel = to + first * width;
    dim_t k = 0;
    for (; k + 4 <= n; k += 4) {
      dim_t e = 0;
      for (; e + 4 <= width; e += 4) {
        turn_four(from, first + k, e, panel + e * kKeyTile + k);
      }
      for (; e < width; ++e) {
        for (dim_t i = 0; i < 4; ++i) {
          panel[e * kKeyTile + k + i] = value_of(from[first + k + i][e]);
        }
      }
    }
    for (; k < ceil_div(n, kLanes) * kLanes; ++k) {
      for (dim_t e = 0; e < width; ++e) {
        panel[e * kKeyTile + k] = k < n ? value_of(from[first + k][e]) : 0.0F;
      }
    }
  }
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
