// kernels/cpu/product_tile_end.hpp — how a tile's chains begin and end: vectors of the start value,
// and bias, residual and rounding of the finished ones. Shared by the f32 and bf16 tiles of an ISA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <immintrin.h>

#include "kernels/cpu/product_tile.hpp"

#define CAMBIUM_TARGET_AVX2 __attribute__((target("avx2,fma")))
// What Highway's AVX-512 target has, and so every machine that runs `avx512`.
#define CAMBIUM_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

namespace cambium::kernels::cpu {

// ---- AVX-512: 16 lanes under a mask -------------------------------------------------------------

// Lanes of vector v that lie inside `columns`.
inline __mmask16 lanes_inside_512(int columns, int v) {
  const int inside = columns - v * 16;
  return static_cast<__mmask16>(inside >= 16 ? 0xffffU : (1U << (inside > 0 ? inside : 0)) - 1U);
}

// The masked forms below, where plain ones would do, are those that GCC 12 does not warn about.
CAMBIUM_TARGET_AVX512 inline __m512 load_bf16_512(__mmask16 mask, const std::uint16_t* from) {
  const __m512i halves = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, from));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(mask, halves, 16));
}

// round_to_bf16 of device/bfloat16.hpp.
CAMBIUM_TARGET_AVX512 inline void store_bf16_512(__mmask16 mask, std::uint16_t* to, __m512 value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i upper = _mm512_maskz_srli_epi32(mask, bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i biased = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i rounded = _mm512_maskz_srli_epi32(mask, biased, 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  _mm512_mask_cvtepi32_storeu_epi16(to, mask, _mm512_mask_blend_epi32(is_nan, rounded, quiet));
}

// Row i, vector v of the finished tile.
CAMBIUM_TARGET_AVX512 inline void finish_512(
    const TileOutput& o, int i, int v, __mmask16 mask, __m512 value) {
  const dim_t column = v * 16;
  if (o.bias != nullptr) {
    value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, o.bias + column));
  }
  if (o.add != nullptr) {
    const dim_t at = i * o.add_stride + column;
    const __m512 add = o.add_is_bf16
                           ? load_bf16_512(mask, static_cast<const std::uint16_t*>(o.add) + at)
                           : _mm512_maskz_loadu_ps(mask, static_cast<const float*>(o.add) + at);
    value = _mm512_add_ps(add, value);
  }
  const dim_t at = i * o.out_stride + column;
  if (o.out_is_bf16) {
    store_bf16_512(mask, static_cast<std::uint16_t*>(o.out) + at, value);
  } else {
    _mm512_mask_storeu_ps(static_cast<float*>(o.out) + at, mask, value);
  }
}

// ---- AVX2: 8 lanes, of which `count` count ------------------------------------------------------

CAMBIUM_TARGET_AVX2 inline __m256i first_lanes(int count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
}

CAMBIUM_TARGET_AVX2 inline __m256 load_256(int count, const float* from) {
  return count >= 8 ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}

// AVX2 has no masked 16-bit moves: a ragged edge goes through eight values on the stack.
CAMBIUM_TARGET_AVX2 inline __m256 load_bf16_256(int count, const std::uint16_t* from) {
  alignas(16) std::uint16_t edge[8] = {};
  if (count < 8) {
    std::memcpy(edge, from, static_cast<std::size_t>(count) * sizeof(*from));
    from = edge;
  }
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

CAMBIUM_TARGET_AVX2 inline void store_bf16_256(int count, std::uint16_t* to, __m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i wide = _mm256_blendv_epi8(rounded, quiet, is_nan);
  const __m128i halves =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  if (count >= 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
  } else {
    alignas(16) std::uint16_t edge[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(edge), halves);
    std::memcpy(to, edge, static_cast<std::size_t>(count) * sizeof(*to));
  }
}

// Row i, vector v of the finished tile, of which `count` > 0 lanes lie inside.
CAMBIUM_TARGET_AVX2 inline void finish_256(
    const TileOutput& o, int i, int v, int count, __m256 value) {
  const dim_t column = v * 8;
  if (o.bias != nullptr) {
    value = _mm256_add_ps(value, load_256(count, o.bias + column));
  }
  if (o.add != nullptr) {
    const dim_t at = i * o.add_stride + column;
    const __m256 add = o.add_is_bf16
                           ? load_bf16_256(count, static_cast<const std::uint16_t*>(o.add) + at)
                           : load_256(count, static_cast<const float*>(o.add) + at);
    value = _mm256_add_ps(add, value);
  }
  const dim_t at = i * o.out_stride + column;
  if (o.out_is_bf16) {
    store_bf16_256(count, static_cast<std::uint16_t*>(o.out) + at, value);
  } else if (count >= 8) {
    _mm256_storeu_ps(static_cast<float*>(o.out) + at, value);
  } else {
    _mm256_maskstore_ps(static_cast<float*>(o.out) + at, first_lanes(count), value);
  }
}

}  // namespace cambium::kernels::cpu
