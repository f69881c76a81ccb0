// kernels/cpu/product_tile_bf16_avx512.cpp — bf16 chains of AVX-512: one `vdpbf16ps` a unit. The
// instruction flushes denormals whatever the float mode says.
// SPDX-License-Identifier: Apache-2.0
#define CAMBIUM_TILE_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#include "kernels/cpu/product_tile_512-inl.hpp"

namespace cambium::kernels::cpu {
namespace {

struct PairProduct {
  using Vector = __m512i;

  CAMBIUM_TILE_TARGET static Vector load(const float* from) {
    return _mm512_loadu_si512(from);
  }

  // A broadcast moves bits, whatever they mean.
  CAMBIUM_TILE_TARGET static Vector spread(float unit) {
    return _mm512_castps_si512(_mm512_set1_ps(unit));
  }

  CAMBIUM_TILE_TARGET static __m512 add(__m512 chain, Vector row, Vector column) {
    return _mm512_dpbf16_ps(
        chain, reinterpret_cast<__m512bh>(row), reinterpret_cast<__m512bh>(column));
  }
};

}  // namespace

const TileKernel& tile_bf16_avx512() {
  static constexpr TileKernel kernel{kRows, static_cast<int>(kPanelWidth), kFunctions<PairProduct>};
  return kernel;
}

}  // namespace cambium::kernels::cpu
