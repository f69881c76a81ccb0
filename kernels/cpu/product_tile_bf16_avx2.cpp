// kernels/cpu/product_tile_bf16_avx2.cpp — bf16 pairs widened to f32: a 4 x 16 tile, 8 accumulators
// beside 4 vectors of B and 2 of A. The float mode flushes denormals while the chains run, and only
// then, as `vdpbf16ps` does.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/product_tile_end.hpp"

namespace cambium::kernels::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kRows = 4;
constexpr int kColumns = 16;
constexpr unsigned kFlushDenormals = 0x8040;  // results and inputs

CAMBIUM_TARGET_AVX2 inline __m256 even_of(__m256 pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

CAMBIUM_TARGET_AVX2 inline __m256 odd_of(__m256 pairs) {
  return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
}

// Chains from and to `chains`, R rows of V vectors. Never inlined: the compiler may move arithmetic
// across a change of the float mode, but not out of a function.
template <int R, int V>
[[gnu::noinline]] CAMBIUM_TARGET_AVX2 void run_chains(dim_t sum,
                                                      const float* a,
                                                      const float* b,
                                                      float* chains) {
  __m256 acc[R][V];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      acc[i][v] = _mm256_load_ps(chains + (i * V + v) * kLanes);
    }
  }
  for (dim_t s = 0; s < sum; ++s) {
    __m256 even[V];
    __m256 odd[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const __m256 pairs = _mm256_loadu_ps(b + v * kLanes);
      even[v] = even_of(pairs);
      odd[v] = odd_of(pairs);
    }
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const __m256 row = _mm256_broadcast_ss(a + i);
      const __m256 row_odd = odd_of(row);
      const __m256 row_even = even_of(row);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        acc[i][v] = _mm256_fmadd_ps(row_odd, odd[v], acc[i][v]);
      }
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        acc[i][v] = _mm256_fmadd_ps(row_even, even[v], acc[i][v]);
      }
    }
    a += R;
    b += kPanelWidth;
  }
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      _mm256_store_ps(chains + (i * V + v) * kLanes, acc[i][v]);
    }
  }
}

template <int R, int V>
CAMBIUM_TARGET_AVX2 void tile(
    dim_t sum, const float* a, const float* b, int columns, const TileOutput& o) {
  alignas(32) float chains[R * V * kLanes];
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < V; ++v) {
      const __m256 start = o.start == nullptr ? _mm256_setzero_ps()
                                              : load_256(columns - v * kLanes,
                                                         o.start + i * o.start_stride + v * kLanes);
      _mm256_store_ps(chains + (i * V + v) * kLanes, start);
    }
  }
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | kFlushDenormals);
  run_chains<R, V>(sum, a, b, chains);
  _mm_setcsr(mode);
  for (int i = 0; i < R; ++i) {
    for (int v = 0; v < V; ++v) {
      finish_256(o, i, v, columns - v * kLanes, _mm256_load_ps(chains + (i * V + v) * kLanes));
    }
  }
}

template <int R>
void tile_rows(dim_t sum, const float* a, const float* b, int columns, const TileOutput& o) {
  if (columns > kLanes) {
    tile<R, 2>(sum, a, b, columns, o);
  } else {
    tile<R, 1>(sum, a, b, columns, o);
  }
}

constexpr TileFunction kFunctions[kRows] = {tile_rows<1>, tile_rows<2>, tile_rows<3>, tile_rows<4>};

}  // namespace

const TileKernel& tile_bf16_avx2() {
  static_assert(kPanelWidth % kColumns == 0);
  static constexpr TileKernel kernel{kRows, kColumns, kFunctions};
  return kernel;
}

}  // namespace cambium::kernels::cpu
