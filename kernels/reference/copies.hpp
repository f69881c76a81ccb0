// kernels/reference/copies.hpp — runs scalar code with the fma instruction where the processor has
// it, and with libm's correctly rounded software fma elsewhere. Same bits, about 20 times the
// speed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/view.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/reference/math.hpp"

namespace cambium::kernels::reference {

#if defined(__x86_64__)
// `work` must be inlined by force: only then is it compiled for this function's target.
template <typename Work>
[[gnu::target("avx2,fma"), gnu::noinline]] void run_with_fma(const Work& work) {
  work();
}
#endif

template <typename Work>
[[gnu::noinline]] void run_portable(const Work& work) {
  work();
}

template <typename Work>
void run_best(const Work& work) {
#if defined(__x86_64__)
  static const bool fused = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (fused) {
    return run_with_fma(work);
  }
#endif
  run_portable(work);
}

// Calls Kernel<T>::run(arguments) for the T of `dtype`, f32 or f64.
template <template <typename> typename Kernel, typename... Arguments>
void run_for(device::DType dtype, const Arguments&... arguments) {
  cpu::set_float_mode();
  if (dtype == device::DType::f64) {
    run_best([&]() [[gnu::always_inline]] { Kernel<double>::run(arguments...); });
  } else {
    run_best([&]() [[gnu::always_inline]] { Kernel<float>::run(arguments...); });
  }
}

}  // namespace cambium::kernels::reference
