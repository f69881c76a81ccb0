// kernels/cpu/isa.hpp — the instructions of the cpu backend (`run.isa`), and kernels' float mode.
// The choice changes speed only: every ISA gives the same bits (design.md §1.11).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace cambium::kernels::cpu {

enum class Isa { automatic, avx2, avx512 };

[[nodiscard]] const char* name_of(Isa isa);

// True where the machine has AVX2 and FMA; elsewhere only `reference` runs.
[[nodiscard]] bool has_cpu_backend();

// True where the machine can run `isa`; `automatic` means has_cpu_backend().
[[nodiscard]] bool is_supported(Isa isa);

// Chooses for the whole process, Highway's kernels included; call it while no kernel runs.
// `automatic` is the best that the machine has, and the state at start. Throws: Error(usage) when
// the machine lacks the ISA.
void select_isa(Isa isa);

// avx2 or avx512. Throws: Error(usage) on a machine without AVX2 and FMA.
[[nodiscard]] Isa active_isa();

// Denormals count: clears flush-to-zero and denormals-are-zero of the calling thread. Kernels call
// it on every thread that they use, since a library may have set them at start (-ffast-math does).
inline void set_float_mode() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  const unsigned mode = _mm_getcsr();
  if ((mode & (kFlushToZero | kDenormalsAreZero)) != 0) {
    _mm_setcsr(mode & ~(kFlushToZero | kDenormalsAreZero));
  }
#endif
}

}  // namespace cambium::kernels::cpu
