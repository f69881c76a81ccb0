// tests/bench/peak.hpp — what the machine can do at most, measured: fma in registers, and memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <immintrin.h>

#include "device/buffer.hpp"
#include "device/thread_pool.hpp"
#include "kernels/cpu/isa.hpp"

namespace cambium::bench {

inline double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

inline volatile float sink;

__attribute__((target("avx512f"))) inline void fma_avx512(int steps) {
  __m512 acc[16];
  for (auto& x : acc) {
    x = _mm512_set1_ps(1.0F);
  }
  const __m512 factor = _mm512_set1_ps(0.5F);
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      acc[i] = _mm512_fmadd_ps(acc[i], factor, factor);
    }
  }
  float out[16];
  for (int i = 1; i < 16; ++i) {
    acc[0] = _mm512_add_ps(acc[0], acc[i]);
  }
  _mm512_storeu_ps(out, acc[0]);
  sink = out[0];
}

__attribute__((target("avx2,fma"))) inline void fma_avx2(int steps) {
  __m256 acc[12];
  for (auto& x : acc) {
    x = _mm256_set1_ps(1.0F);
  }
  const __m256 factor = _mm256_set1_ps(0.5F);
  for (int s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      acc[i] = _mm256_fmadd_ps(acc[i], factor, factor);
    }
  }
  float out[8];
  for (int i = 1; i < 8; ++i) {
    acc[0] = _mm256_add_ps(acc[0], acc[i]);
  }
  _mm256_storeu_ps(out, acc[0]);
  sink = out[0];
}

// FLOPs per second of independent fma chains in registers, all threads of the pool at once: what no
// product can beat.
inline double peak_flops(device::ThreadPool& pool, kernels::cpu::Isa isa) {
  constexpr int kSteps = 200'000;
  const bool is_wide = isa == kernels::cpu::Isa::avx512;
  const double flops = (is_wide ? 16.0 * 16 : 12.0 * 8) * 2 * kSteps * pool.size();
  double best = 1e30;
  for (const double begin = now(); now() - begin < 0.3;) {
    const double start = now();
    pool.run([&](int /*thread*/) { is_wide ? fma_avx512(kSteps) : fma_avx2(kSteps); });
    best = std::min(best, now() - start);
  }
  return flops / best;
}

// Bytes per second of a[i] = b[i] + 3 c[i] over arrays that no cache holds (STREAM's triad; three
// accesses counted).
inline double peak_bytes(device::ThreadPool& pool) {
  constexpr dim_t kElements = dim_t{16} << 20;
  device::Buffer memory[3];
  float* at[3];
  for (int i = 0; i < 3; ++i) {
    memory[i] = device::Buffer(kElements * sizeof(float));
    at[i] = static_cast<float*>(memory[i].data());
  }
  double best = 1e30;
  for (const double begin = now(); now() - begin < 0.5;) {
    const double start = now();
    pool.split(kElements, [&](int /*thread*/, Range r) {
      float* __restrict a = at[0];
      const float* __restrict b = at[1];
      const float* __restrict c = at[2];
      for (dim_t i = r.begin; i < r.end; ++i) {
        a[i] = b[i] + 3.0F * c[i];
      }
    });
    best = std::min(best, now() - start);
  }
  return 3.0 * kElements * sizeof(float) / best;
}

}  // namespace cambium::bench
