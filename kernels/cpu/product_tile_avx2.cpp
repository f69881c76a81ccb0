// kernels/cpu/product_tile_avx2.cpp — 6 x 16 tile on a third of a panel: 12 accumulators.
//
// A third of a panel and a block of A stay in L1 together for a sum of 256, so B comes from L2 once
// for all blocks of A. The price is the small tile's edges: about a tenth of peak at a sum of 128.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product_tile_end.hpp"

namespace cambium::kernels::cpu {
namespace {

constexpr int kLanes = 8;
constexpr int kRows = 6;
constexpr int kColumns = 16;

template <int R, int V>
CAMBIUM_TARGET_AVX2 void tile(
    dim_t sum, const float* a, const float* b, int columns, const TileOutput& o) {
  __m256 acc[R][V];
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      acc[i][v] = _mm256_setzero_ps();
      if (o.start != nullptr) {
        const float* from = o.start + i * o.start_stride + v * kLanes;
        acc[i][v] = load_256(columns - v * kLanes, from);
      }
    }
  }
  for (dim_t s = 0; s < sum; ++s) {
    __m256 column[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      column[v] = _mm256_loadu_ps(b + v * kLanes);
    }
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) {
      const __m256 row = _mm256_broadcast_ss(a + i);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        acc[i][v] = _mm256_fmadd_ps(row, column[v], acc[i][v]);
      }
    }
    a += R;
    b += kPanelWidth;
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      finish_256(o, i, v, columns - v * kLanes, acc[i][v]);
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

constexpr TileFunction kFunctions[kRows] = {
    tile_rows<1>, tile_rows<2>, tile_rows<3>, tile_rows<4>, tile_rows<5>, tile_rows<6>};

}  // namespace

const TileKernel& tile_avx2() {
  static_assert(kPanelWidth % kColumns == 0);
  static constexpr TileKernel kernel{kRows, kColumns, kFunctions};
  return kernel;
}

}  // namespace cambium::kernels::cpu
