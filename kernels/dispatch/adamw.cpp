// kernels/dispatch/adamw.cpp — checks shapes once for all backends and calls the stream's backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/adamw.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void adamw_update(Stream& stream, const AdamWUpdate& a) {
  const DType dtype = a.value.dtype;
  const dim_t n = a.value.cols;
  check_shape("adamw_update: value", a.value, 1, n, dtype);
  check_shape("adamw_update: gradient", a.gradient, 1, n, dtype);
  check_shape("adamw_update: exp_avg", a.exp_avg, 1, n, dtype);
  check_shape("adamw_update: exp_avg_sq", a.exp_avg_sq, 1, n, dtype);
  check_that(a.updates >= 1, "adamw_update: updates must count this one");
  const WorkScope scope(
      stream.profile(),
      Work::adamw,
      0,
      bytes_in(a.value, a.value, a.gradient, a.exp_avg, a.exp_avg, a.exp_avg_sq, a.exp_avg_sq));
  call_backend(
      "adamw",
      stream,
      dtype,
      [&] { reference::adamw_update(stream, a); },
      [&] { cpu::adamw_update(stream, a); });
}

void grain_squares(Stream& stream, const GrainSquares& a) {
  check_that(a.grain > 0, "grain_squares: grain must be positive");
  check_shape("grain_squares: gradient", a.gradient, 1, a.gradient.cols, a.gradient.dtype);
  check_shape(
      "grain_squares: squares", a.squares, 1, ceil_div(a.gradient.cols, a.grain), DType::f64);
  const WorkScope scope(stream.profile(), Work::gradient_norm, 0, bytes_in(a.gradient));
  call_backend(
      "adamw",
      stream,
      a.gradient.dtype,
      [&] { reference::grain_squares(stream, a); },
      [&] { cpu::grain_squares(stream, a); });
}

}  // namespace cambium::kernels
