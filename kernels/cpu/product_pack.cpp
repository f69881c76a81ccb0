// kernels/cpu/product_pack.cpp — SSE2 is in every x86-64, so these need no choice of ISA.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product_pack.hpp"

#include <algorithm>
#include <cstring>
#include <xmmintrin.h>

namespace cambium::kernels::cpu {
namespace {

// 4 rows of `from`, all of the sum, into 4 neighbouring columns of `to`.
void transpose_four(const float* from, dim_t stride, dim_t sum, float* to, dim_t width) {
  dim_t s = 0;
  for (; s + 4 <= sum; s += 4) {
    __m128 r0 = _mm_loadu_ps(from + s);
    __m128 r1 = _mm_loadu_ps(from + stride + s);
    __m128 r2 = _mm_loadu_ps(from + 2 * stride + s);
    __m128 r3 = _mm_loadu_ps(from + 3 * stride + s);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    float* at = to + s * width;
    _mm_storeu_ps(at, r0);
    _mm_storeu_ps(at + width, r1);
    _mm_storeu_ps(at + 2 * width, r2);
    _mm_storeu_ps(at + 3 * width, r3);
  }
  for (; s < sum; ++s) {
    for (dim_t i = 0; i < 4; ++i) {
      to[s * width + i] = from[i * stride + s];
    }
  }
}

void zero_columns(dim_t begin, dim_t width, dim_t sum, float* to) {
  if (begin < width) {
    for (dim_t s = 0; s < sum; ++s) {
      std::fill(to + s * width + begin, to + (s + 1) * width, 0.0F);
    }
  }
}

// A constant size lets the compiler move whole vectors.
template <dim_t kWidth>
void copy_whole(const float* from, dim_t stride, dim_t sum, float* to) {
  for (dim_t s = 0; s < sum; ++s) {
    std::memcpy(to + s * kWidth, from + s * stride, kWidth * sizeof(float));
  }
}

}  // namespace

void pack_transposed(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  if (count >= 4) {
    for (dim_t i = 0; i + 4 < count; i += 4) {
      transpose_four(from + i * stride, stride, sum, to + i, width);
    }
    // The last four may overlap the four before: they write the same values again.
    transpose_four(from + (count - 4) * stride, stride, sum, to + count - 4, width);
  } else {
    for (dim_t i = 0; i < count; ++i) {
      for (dim_t s = 0; s < sum; ++s) {
        to[s * width + i] = from[i * stride + s];
      }
    }
  }
  zero_columns(count, width, sum, to);
}

void pack_copied(const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width) {
  if (count == width && width == kPanelWidth) {
    copy_whole<kPanelWidth>(from, stride, sum, to);
  } else if (count == width && width == 8) {
    copy_whole<8>(from, stride, sum, to);
  } else if (count == width && width == 6) {
    copy_whole<6>(from, stride, sum, to);
  } else {
    for (dim_t s = 0; s < sum; ++s) {
      std::copy_n(from + s * stride, count, to + s * width);
    }
    zero_columns(count, width, sum, to);
  }
}

}  // namespace cambium::kernels::cpu
