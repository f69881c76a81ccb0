// kernels/reference/product.cpp — the oracle: one scalar fma chain per output element, in f32 and
// f64; bf16 is in product_bf16.cpp.
//
// The loops below are written once and compiled twice: with the FMA instruction set, where std::fma
// is one instruction, and without, where it is libm's exact function. Both give the same bits; the
// choice is made at run time. Order contracts of kernels/product.hpp hold by construction: every
// output element is read and written only by the chain that its loop spells out.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/product.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa.hpp"
#include "kernels/reference/product_bf16.hpp"

#if defined(__x86_64__)
#define CAMBIUM_TARGET_FMA __attribute__((target("fma")))
#else
#define CAMBIUM_TARGET_FMA
#endif
#define CAMBIUM_INLINE_BODY inline __attribute__((always_inline))

namespace cambium::kernels::reference {
namespace {

using device::DType;

bool has_fma() {
#if defined(__x86_64__)
  static const bool found = __builtin_cpu_supports("fma") != 0;
  return found;
#else
  return true;
#endif
}

template <typename T>
T* row(const View& v, dim_t r) {
  return v.as<T>() + r * v.stride;
}

// ---- loops over a range of output rows ----------------------------------------------------------

// Chains that advance side by side, to hide the latency of fma. They do not mix.
constexpr dim_t kChains = 8;

template <typename T>
CAMBIUM_INLINE_BODY void forward_chain(const ProductForward& a, dim_t m, dim_t n, dim_t width) {
  const T* x = row<T>(a.x, m);
  T* y = row<T>(a.y, m) + n;
  T acc[kChains] = {};
  const T* w[kChains] = {};
  for (dim_t j = 0; j < width; ++j) {
    acc[j] = a.accumulate == Accumulate::yes ? y[j] : T{0};
    w[j] = row<T>(a.w.plain, n + j);
  }
  for (dim_t k = 0; k < a.x.cols; ++k) {
    for (dim_t j = 0; j < width; ++j) {
      acc[j] = std::fma(x[k], w[j][k], acc[j]);
    }
  }
  const T* residual = a.residual.empty() ? nullptr : row<T>(a.residual, m) + n;
  const T* bias = a.bias.empty() ? nullptr : a.bias.as<T>() + n;
  for (dim_t j = 0; j < width; ++j) {
    const T value = bias == nullptr ? acc[j] : acc[j] + bias[j];
    y[j] = residual == nullptr ? value : residual[j] + value;
  }
}

template <typename T>
CAMBIUM_INLINE_BODY void forward_rows(const ProductForward& a, Range rows) {
  const dim_t whole = a.y.cols / kChains * kChains;
  for (dim_t m = rows.begin; m < rows.end; ++m) {
    for (dim_t n = 0; n < whole; n += kChains) {
      forward_chain<T>(a, m, n, kChains);
    }
    if (whole < a.y.cols) {
      forward_chain<T>(a, m, whole, a.y.cols - whole);
    }
  }
}

// acc[j] = fma(factor, values[j], acc[j]): one step of as many chains as there are columns.
template <typename T>
CAMBIUM_INLINE_BODY void step_chains(T factor, const T* values, T* acc, dim_t columns) {
  for (dim_t j = 0; j < columns; ++j) {
    acc[j] = std::fma(factor, values[j], acc[j]);
  }
}

template <typename T>
CAMBIUM_INLINE_BODY void backward_input_rows(const ProductBackwardInput& a, Range rows) {
  for (dim_t m = rows.begin; m < rows.end; ++m) {
    T* dx = row<T>(a.dx, m);
    if (a.accumulate == Accumulate::no) {
      std::fill(dx, dx + a.dx.cols, T{0});
    }
    for (dim_t n = 0; n < a.dy.cols; ++n) {
      step_chains(row<T>(a.dy, m)[n], row<T>(a.w.plain, n), dx, a.dx.cols);
    }
  }
}

template <typename T>
CAMBIUM_INLINE_BODY void backward_weight_rows(const ProductBackwardWeight& a, Range rows) {
  for (dim_t n = rows.begin; n < rows.end; ++n) {
    T* dw = row<T>(a.dw, n);
    if (a.accumulate == Accumulate::no) {
      std::fill(dw, dw + a.dw.cols, T{0});
    }
    for (dim_t m = 0; m < a.dy.rows; ++m) {
      step_chains(row<T>(a.dy, m)[n], row<T>(a.x, m), dw, a.dw.cols);
    }
  }
}

// ---- the two compilations
// ------------------------------------------------------------------------

template <typename T>
CAMBIUM_INLINE_BODY void compute(const ProductForward& a, Range rows) {
  forward_rows<T>(a, rows);
}

template <typename T>
CAMBIUM_INLINE_BODY void compute(const ProductBackwardInput& a, Range rows) {
  backward_input_rows<T>(a, rows);
}

template <typename T>
CAMBIUM_INLINE_BODY void compute(const ProductBackwardWeight& a, Range rows) {
  backward_weight_rows<T>(a, rows);
}

template <typename T, typename Arguments>
CAMBIUM_TARGET_FMA void compute_with_instruction(const Arguments& a, Range rows) {
  compute<T>(a, rows);
}

template <typename T, typename Arguments>
void compute_with_libm(const Arguments& a, Range rows) {
  compute<T>(a, rows);
}

template <typename Arguments>
void run(Stream& stream, DType dtype, dim_t output_rows, const Arguments& a) {
  stream.pool().split(output_rows, [&](int, Range rows) {
    cpu::set_float_mode();
    if (dtype == DType::bf16) {
      compute_bf16(a, rows);
      return;
    }
    if (dtype == DType::f64) {
      has_fma() ? compute_with_instruction<double>(a, rows) : compute_with_libm<double>(a, rows);
    } else {
      has_fma() ? compute_with_instruction<float>(a, rows) : compute_with_libm<float>(a, rows);
    }
  });
}

}  // namespace

void product_forward(Stream& stream, const ProductForward& a) {
  run(stream, a.x.dtype, a.y.rows, a);
}

void product_backward_input(Stream& stream, const ProductBackwardInput& a) {
  run(stream, a.dy.dtype, a.dx.rows, a);
}

void product_backward_weight(Stream& stream, const ProductBackwardWeight& a) {
  run(stream, a.dy.dtype, a.dw.rows, a);
}

}  // namespace cambium::kernels::reference
