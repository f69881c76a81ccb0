// kernels/dispatch/checks.hpp — shape checks that all families share, and the call of the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "device/profile.hpp"
#include "device/stream.hpp"
#include "device/view.hpp"
#include "kernels/cpu/isa.hpp"

namespace cambium::kernels {

using device::DType;
using device::Work;
using device::WorkScope;

// Bytes of all views together: what a kernel moves at least.
template <typename... Views>
double bytes_in(const Views&... views) {
  return (0.0 + ... +
          (static_cast<double>(views.size()) * static_cast<double>(device::bytes_of(views.dtype))));
}

// Throws Error(bug) unless `v` is (rows, cols) of `dtype` with rows that do not overlap. `what` is
// "function: view".
inline void check_shape(
    const char* what, const device::View& v, dim_t rows, dim_t cols, DType dtype) {
  const bool fits = v.rows == rows && v.cols == cols && v.dtype == dtype;
  if (!fits || (v.rows > 1 && v.stride < v.cols)) {
    throw Error(Code::bug,
                std::string(what) + ": expected (" + std::to_string(rows) + ", " +
                    std::to_string(cols) + ") of the partners' dtype with rows apart, got (" +
                    std::to_string(v.rows) + ", " + std::to_string(v.cols) + "), stride " +
                    std::to_string(v.stride));
  }
}

// What gains, biases, gates, tables, statistics and weight gradients are beside activations of
// `dtype`: never narrower than f32.
constexpr DType master_of(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

// Throws Error(bug) unless `v` is (rows, cols) and either as `partner` or, where that is f32 or
// bf16, the other of the two.
inline void check_mixed(
    const char* what, const device::View& v, dim_t rows, dim_t cols, DType partner) {
  const bool fits = master_of(v.dtype) == master_of(partner);
  check_shape(what, v, rows, cols, fits ? v.dtype : partner);
}

inline void check_that(bool condition, const char* what) {
  if (!condition) {
    throw Error(Code::bug, what);
  }
}

// Calls `reference` or `cpu`. f32 and bf16 are for both, f64 is for `reference` only.
// Throws: Error(bug) for a dtype that the backend lacks; Error(usage) for a backend that the build
// or the machine lacks.
template <typename Reference, typename Cpu>
void call_backend(
    const char* family, device::Stream& stream, DType dtype, Reference reference, Cpu cpu) {
  switch (stream.backend()) {
    case device::Backend::reference:
      check_that(dtype != DType::i32, "kernels on reference: neither f32, f64 nor bf16");
      return reference();
    case device::Backend::cpu:
      check_that(dtype == DType::f32 || dtype == DType::bf16,
                 "kernels on cpu: only f32 and bf16; f64 runs on reference");
      static_cast<void>(cpu::active_isa());  // throws where the machine has no AVX2
      return cpu();
    case device::Backend::cuda:
      break;
  }
  throw Error(Code::usage,
              std::string(family) + ": backend " + name_of(stream.backend()) +
                  " is not in this build; use run.device: cpu or reference");
}

}  // namespace cambium::kernels
