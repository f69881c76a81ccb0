// kernels/cpu/product_pack_bf16.cpp — pairs of bf16. Whoever packs has AVX2 (cpu/isa.hpp).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <immintrin.h>

#include "kernels/cpu/product_pack.hpp"

namespace cambium::kernels::cpu {
namespace {

using device::round_to_bf16;

#define CAMBIUM_AVX2 __attribute__((target("avx2")))

BFloat16 bf16_of(BFloat16 value) {
  return value;
}

BFloat16 bf16_of(float value) {
  return round_to_bf16(value);
}

float unit_of(BFloat16 even, BFloat16 odd) {
  return std::bit_cast<float>(even.bits | (static_cast<std::uint32_t>(odd.bits) << 16));
}

// Four f32 rounded to bf16 (round_to_bf16 of device/bfloat16.hpp), in the lower halves.
__m128i rounded(__m128 value) {
  const __m128i bits = _mm_castps_si128(value);
  const __m128i upper = _mm_srli_epi32(bits, 16);
  const __m128i odd = _mm_and_si128(upper, _mm_set1_epi32(1));
  const __m128i nearest =
      _mm_srli_epi32(_mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), odd), 16);
  const __m128i is_nan = _mm_castps_si128(_mm_cmpunord_ps(value, value));
  const __m128i quiet = _mm_or_si128(upper, _mm_set1_epi32(0x40));
  return _mm_or_si128(_mm_and_si128(is_nan, quiet), _mm_andnot_si128(is_nan, nearest));
}

// Sum indices 8 of one row as four units.
__m128 four_pairs(const BFloat16* from) {
  return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

__m128 four_pairs(const float* from) {
  const __m128 first = _mm_castsi128_ps(rounded(_mm_loadu_ps(from)));
  const __m128 second = _mm_castsi128_ps(rounded(_mm_loadu_ps(from + 4)));
  const __m128i even = _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0)));
  const __m128i odd = _mm_castps_si128(_mm_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1)));
  return _mm_castsi128_ps(_mm_or_si128(even, _mm_slli_epi32(odd, 16)));
}

// The same of eight f32, of 16 sum indices as eight units.
CAMBIUM_AVX2 __m256i rounded(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(nearest, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), is_nan);
}

CAMBIUM_AVX2 __m256 eight_pairs(const BFloat16* from) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
}

CAMBIUM_AVX2 __m256 eight_pairs(const float* from) {
  const __m256 first = _mm256_castsi256_ps(rounded(_mm256_loadu_ps(from)));
  const __m256 second = _mm256_castsi256_ps(rounded(_mm256_loadu_ps(from + 8)));
  const __m256i even =
      _mm256_castps_si256(_mm256_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0)));
  const __m256i odd =
      _mm256_castps_si256(_mm256_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1)));
  const __m256i units = _mm256_or_si256(even, _mm256_slli_epi32(odd, 16));
  return _mm256_castsi256_ps(_mm256_permute4x64_epi64(units, _MM_SHUFFLE(3, 1, 2, 0)));
}

// Columns 4 of rows s and s + 1 as four units.
__m128i interleaved(const BFloat16* even, const BFloat16* odd) {
  return _mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(even)),
                            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(odd)));
}

__m128i interleaved(const float* even, const float* odd) {
  return _mm_or_si128(rounded(_mm_loadu_ps(even)), _mm_slli_epi32(rounded(_mm_loadu_ps(odd)), 16));
}

void zero_columns(dim_t begin, dim_t width, dim_t units, float* to) {
  if (begin < width) {
    for (dim_t q = 0; q < units; ++q) {
      std::fill(to + q * width + begin, to + (q + 1) * width, 0.0F);
    }
  }
}

// One row into one column, from sum index `s` (even) on.
template <typename T>
void pack_row(const T* from, dim_t s, dim_t sum, float* to, dim_t width) {
  for (; s < sum; s += 2) {
    to[s / 2 * width] = unit_of(bf16_of(from[s]), s + 1 < sum ? bf16_of(from[s + 1]) : BFloat16{});
  }
}

// 4 rows of `from`, all of the sum, into 4 neighbouring columns of `to`.
template <typename T>
void transpose_four(const T* from, dim_t stride, dim_t sum, float* to, dim_t width) {
  dim_t s = 0;
  for (; s + 8 <= sum; s += 8) {
    __m128 r0 = four_pairs(from + s);
    __m128 r1 = four_pairs(from + stride + s);
    __m128 r2 = four_pairs(from + 2 * stride + s);
    __m128 r3 = four_pairs(from + 3 * stride + s);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    float* at = to + s / 2 * width;
    _mm_storeu_ps(at, r0);
    _mm_storeu_ps(at + width, r1);
    _mm_storeu_ps(at + 2 * width, r2);
    _mm_storeu_ps(at + 3 * width, r3);
  }
  for (dim_t i = 0; i < 4; ++i) {
    pack_row(from + i * stride, s, sum, to + i, width);
  }
}

// 8 x 8 units: r[i] holds eight units of row i, then unit i of eight rows.
CAMBIUM_AVX2 void transpose(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// The same for 8 rows.
template <typename T>
CAMBIUM_AVX2 void transpose_eight(const T* from, dim_t stride, dim_t sum, float* to, dim_t width) {
  dim_t s = 0;
  for (; s + 16 <= sum; s += 16) {
    __m256 r[8];
    for (dim_t i = 0; i < 8; ++i) {
      r[i] = eight_pairs(from + i * stride + s);
    }
    transpose(r);
    for (dim_t q = 0; q < 8; ++q) {
      _mm256_storeu_ps(to + (s / 2 + q) * width, r[q]);
    }
  }
  for (dim_t i = 0; i < 8 && s < sum; i += 4) {
    transpose_four(from + i * stride + s, stride, sum - s, to + s / 2 * width + i, width);
  }
}

template <typename T>
void pack_rows(const T* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  // The last eight or four may overlap those before: they write the same values again.
  if (count >= 8) {
    for (dim_t i = 0; i + 8 < count; i += 8) {
      transpose_eight(from + i * stride, stride, sum, to + i, width);
    }
    transpose_eight(from + (count - 8) * stride, stride, sum, to + count - 8, width);
  } else if (count >= 4) {
    for (dim_t i = 0; i + 4 < count; i += 4) {
      transpose_four(from + i * stride, stride, sum, to + i, width);
    }
    transpose_four(from + (count - 4) * stride, stride, sum, to + count - 4, width);
  } else {
    for (dim_t i = 0; i < count; ++i) {
      pack_row(from + i * stride, 0, sum, to + i, width);
    }
  }
  zero_columns(count, width, (sum + 1) / 2, to);
}

// As many columns as go in whole vectors; returns how many.
CAMBIUM_AVX2 dim_t interleave(const BFloat16* even, const BFloat16* odd, dim_t count, float* to) {
  dim_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(odd + i));
    const __m256 low = _mm256_castsi256_ps(_mm256_unpacklo_epi16(a, b));
    const __m256 high = _mm256_castsi256_ps(_mm256_unpackhi_epi16(a, b));
    _mm256_storeu_ps(to + i, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + i + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  for (; i + 8 <= count; i += 8) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd + i));
    _mm_storeu_ps(to + i, _mm_castsi128_ps(_mm_unpacklo_epi16(a, b)));
    _mm_storeu_ps(to + i + 4, _mm_castsi128_ps(_mm_unpackhi_epi16(a, b)));
  }
  return i;
}

CAMBIUM_AVX2 dim_t interleave(const float* even, const float* odd, dim_t count, float* to) {
  dim_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i units = _mm256_or_si256(rounded(_mm256_loadu_ps(even + i)),
                                          _mm256_slli_epi32(rounded(_mm256_loadu_ps(odd + i)), 16));
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(units));
  }
  return i;
}

template <typename T>
CAMBIUM_AVX2 void pack_columns(
    const T* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  for (dim_t s = 0; s + 1 < sum; s += 2) {
    const T* even = from + s * stride;
    const T* odd = even + stride;
    float* at = to + s / 2 * width;
    dim_t i = interleave(even, odd, count, at);
    for (; i + 4 <= count; i += 4) {
      _mm_storeu_ps(at + i, _mm_castsi128_ps(interleaved(even + i, odd + i)));
    }
    for (; i < count; ++i) {
      at[i] = unit_of(bf16_of(even[i]), bf16_of(odd[i]));
    }
  }
  if (sum % 2 != 0) {
    const T* even = from + (sum - 1) * stride;
    float* at = to + sum / 2 * width;
    for (dim_t i = 0; i < count; ++i) {
      at[i] = unit_of(bf16_of(even[i]), BFloat16{});
    }
  }
  zero_columns(count, width, (sum + 1) / 2, to);
}

}  // namespace

void pack_transposed(
    const BFloat16* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  pack_rows(from, stride, count, sum, to, width);
}

void pack_copied(
    const BFloat16* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  pack_columns(from, stride, count, sum, to, width);
}

void pack_transposed_rounded(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  pack_rows(from, stride, count, sum, to, width);
}

void pack_copied_rounded(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  pack_columns(from, stride, count, sum, to, width);
}

}  // namespace cambium::kernels::cpu
