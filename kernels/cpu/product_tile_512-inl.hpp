// kernels/cpu/product_tile_512-inl.hpp — 8 x 48 tile: 24 accumulators, 3 vectors of B, 1 of A. Its
// includer defines CAMBIUM_TILE_TARGET, the instruction set of all that is to be inlined into one
// function, and passes a Step: how a unit of the sum is read and added to a chain.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/product_tile_end.hpp"

namespace cambium::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kRows = 8;
// How far ahead B is fetched into L1, in units of the sum; B streams from L2. Reads past the end
// of a panel by a prefetch are harmless.
constexpr dim_t kPrefetchUnits = 8;

template <class Step, int R, int V>
CAMBIUM_TILE_TARGET void tile(
    dim_t sum, const float* a, const float* b, int columns, const TileOutput& o) {
  const __mmask16 edge = lanes_inside_512(columns, V - 1);
  __m512 acc[R][V];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      acc[i][v] = _mm512_setzero_ps();
      if (o.start != nullptr) {
        const float* from = o.start + i * o.start_stride + v * kLanes;
        acc[i][v] = v + 1 < V ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(edge, from);
        // The tile below comes next.
        _mm_prefetch(reinterpret_cast<const char*>(from + R * o.start_stride), _MM_HINT_T0);
      }
    }
  }
  for (dim_t s = 0; s < sum; ++s) {
    typename Step::Vector column[V];
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      column[v] = Step::load(b + v * kLanes);
      _mm_prefetch(reinterpret_cast<const char*>(b + kPrefetchUnits * kPanelWidth + v * kLanes),
                   _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const typename Step::Vector row = Step::spread(a[i]);
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) {
        acc[i][v] = Step::add(acc[i][v], row, column[v]);
      }
    }
    a += R;
    b += kPanelWidth;
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < V; ++v) {
      const auto whole = static_cast<__mmask16>(0xffff);
      finish_512(o, i, v, v + 1 < V ? whole : edge, acc[i][v]);
    }
  }
}

template <class Step, int R>
void tile_rows(dim_t sum, const float* a, const float* b, int columns, const TileOutput& o) {
  if (columns > 2 * kLanes) {
    tile<Step, R, 3>(sum, a, b, columns, o);
  } else if (columns > kLanes) {
    tile<Step, R, 2>(sum, a, b, columns, o);
  } else {
    tile<Step, R, 1>(sum, a, b, columns, o);
  }
}

template <class Step>
constexpr TileFunction kFunctions[kRows] = {tile_rows<Step, 1>,
                                            tile_rows<Step, 2>,
                                            tile_rows<Step, 3>,
                                            tile_rows<Step, 4>,
                                            tile_rows<Step, 5>,
                                            tile_rows<Step, 6>,
                                            tile_rows<Step, 7>,
                                            tile_rows<Step, 8>};

}  // namespace
}  // namespace cambium::kernels::cpu
