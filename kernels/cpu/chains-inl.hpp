// kernels/cpu/chains-inl.hpp — a block of fma chains in registers: the small product of attention.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_CHAINS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_CHAINS_INL
#undef CAMBIUM_KERNELS_CPU_CHAINS_INL
#else
#define CAMBIUM_KERNELS_CPU_CHAINS_INL
#endif

#include <type_traits>

#include "kernels/cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// Element (r, i) of the left operand is first[r * row + i * step].
struct Left {
  const float* first;
  dim_t row;
  dim_t step;
};

enum class Start { at_zero, at_sum };

// kRows x (16 kVectors) chains: sum[r][c] (+)= left(r, i) * right[i * right_step + c], i ascending
// over `steps`.
template <dim_t kRows, dim_t kVectors, Start kStart>
HWY_INLINE void chain_block(const Left& left,
                            const float* right,
                            dim_t right_step,
                            dim_t steps,
                            float* sum,
                            dim_t sum_row) {
  Floats sums[kRows][kVectors];
  for (dim_t r = 0; r < kRows; ++r) {
    for (dim_t v = 0; v < kVectors; ++v) {
      sums[r][v] = kStart == Start::at_zero ? zeros() : load(sum + r * sum_row + v * kLanes);
    }
  }
  const float* from = left.first;
  for (dim_t i = 0; i < steps; ++i) {
    Floats columns[kVectors];
    for (dim_t v = 0; v < kVectors; ++v) {
      columns[v] = load(right + v * kLanes);
    }
    for (dim_t r = 0; r < kRows; ++r) {
      const Floats factor = broadcast(from[r * left.row]);
      for (dim_t v = 0; v < kVectors; ++v) {
        sums[r][v] = fma(factor, columns[v], sums[r][v]);
      }
    }
    right += right_step;
    from += left.step;
  }
  for (dim_t r = 0; r < kRows; ++r) {
    for (dim_t v = 0; v < kVectors; ++v) {
      store(sums[r][v], sum + r * sum_row + v * kLanes);
    }
  }
}

// A block that fits the registers: 4 x 4 of AVX-512's 32, 4 x 1 (of two registers each) of
// AVX2's 16.
inline constexpr dim_t kBlockRows = 4;
inline constexpr dim_t kBlockVectors = kRegisters == 1 ? 4 : 1;

// Calls body(first vector, std::integral_constant count) for blocks of at most kBlockVectors.
template <typename Body>
HWY_INLINE void each_block(dim_t vectors, const Body& body) {
  dim_t v = 0;
  for (; v + kBlockVectors <= vectors; v += kBlockVectors) {
    body(v, std::integral_constant<dim_t, kBlockVectors>());
  }
  if constexpr (kBlockVectors == 4) {
    switch (vectors - v) {
      case 3:
        body(v, std::integral_constant<dim_t, 3>());
        break;
      case 2:
        body(v, std::integral_constant<dim_t, 2>());
        break;
      case 1:
        body(v, std::integral_constant<dim_t, 1>());
        break;
      default:
        break;
    }
  }
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
