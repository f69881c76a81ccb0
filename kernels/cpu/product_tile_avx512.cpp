// kernels/cpu/product_tile_avx512.cpp — f32 chains of AVX-512: one fma a unit.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product_tile_end.hpp"

#define CAMBIUM_TILE_TARGET CAMBIUM_TARGET_AVX512
#include "kernels/cpu/product_tile_512-inl.hpp"

namespace cambium::kernels::cpu {
namespace {

struct Fma {
  using Vector = __m512;

  CAMBIUM_TILE_TARGET static Vector load(const float* from) {
    return _mm512_loadu_ps(from);
  }

  CAMBIUM_TILE_TARGET static Vector spread(float unit) {
    return _mm512_set1_ps(unit);
  }

  CAMBIUM_TILE_TARGET static __m512 add(__m512 chain, Vector row, Vector column) {
    return _mm512_fmadd_ps(row, column, chain);
  }
};

}  // namespace

const TileKernel& tile_avx512() {
  static constexpr TileKernel kernel{kRows, static_cast<int>(kPanelWidth), kFunctions<Fma>};
  return kernel;
}

}  // namespace cambium::kernels::cpu
