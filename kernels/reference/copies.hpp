// kernels/reference/copies.hpp — runs scalar code with the fma instruction where the processor has
// it, and with libm's correctly rounded software fma elsewhere. Same bits, about 20 times the
// speed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

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

// What values of T are computed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, device::BFloat16>, float, T>;

// Row r of a view as values to compute with.
template <typename T>
class In {
 public:
  CAMBIUM_INLINE In(const device::View& v, dim_t r) : row_(v.as<T>() + r * v.stride) {}

  CAMBIUM_INLINE Wide<T> operator[](dim_t i) const {
    if constexpr (std::is_same_v<T, device::BFloat16>) {
      return device::to_float(row_[i]);
    } else {
      return row_[i];
    }
  }

 private:
  const T* row_;
};

// Row r of a view to write computed values to, rounded to bf16 where it is that.
template <typename T>
class Out {
 public:
  CAMBIUM_INLINE Out(const device::View& v, dim_t r) : row_(v.as<T>() + r * v.stride) {}

  CAMBIUM_INLINE void put(dim_t i, Wide<T> value) const {
    if constexpr (std::is_same_v<T, device::BFloat16>) {
      row_[i] = device::round_to_bf16(value);
    } else {
      row_[i] = value;
    }
  }

 private:
  T* row_;
};

// An element of a view that is W or bf16, whatever the other operands are.
template <typename W>
CAMBIUM_INLINE W value_at(const device::View& v, dim_t r, dim_t c) {
  return v.dtype == device::DType::bf16 ? static_cast<W>(In<device::BFloat16>(v, r)[c])
                                        : In<W>(v, r)[c];
}

template <typename W>
CAMBIUM_INLINE void put_at(const device::View& v, dim_t r, dim_t c, W value) {
  if (v.dtype == device::DType::bf16) {
    Out<device::BFloat16>(v, r).put(c, static_cast<float>(value));
  } else {
    Out<W>(v, r).put(c, value);
  }
}

// f64 if one of the views is, else f32: what operands of several dtypes are computed in.
template <typename... Views>
device::DType computed_in(const Views&... views) {
  return ((views.dtype == device::DType::f64) || ...) ? device::DType::f64 : device::DType::f32;
}

// Calls Kernel<T>::run(arguments) for the T of `dtype`: f32 or f64.
template <template <typename> typename Kernel, typename... Arguments>
void run_wide(device::DType dtype, const Arguments&... arguments) {
  cpu::set_float_mode();
  if (dtype == device::DType::f64) {
    run_best([&]() [[gnu::always_inline]] { Kernel<double>::run(arguments...); });
  } else {
    run_best([&]() [[gnu::always_inline]] { Kernel<float>::run(arguments...); });
  }
}

// The same for f32, f64 or bf16.
template <template <typename> typename Kernel, typename... Arguments>
void run_for(device::DType dtype, const Arguments&... arguments) {
  if (dtype == device::DType::bf16) {
    cpu::set_float_mode();
    run_best([&]() [[gnu::always_inline]] { Kernel<device::BFloat16>::run(arguments...); });
  } else {
    run_wide<Kernel>(dtype, arguments...);
  }
}

}  // namespace cambium::kernels::reference
