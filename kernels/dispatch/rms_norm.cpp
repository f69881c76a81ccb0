// kernels/dispatch/rms_norm.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rms_norm.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void rms_norm_forward(Stream& stream, const RmsNormForward& a) {
  const DType dtype = a.x.dtype;
  check_shape("rms_norm_forward: gain", a.gain, 1, a.x.cols, master_of(dtype));
  check_shape("rms_norm_forward: y", a.y, a.x.rows, a.x.cols, dtype);
  check_shape("rms_norm_forward: inv_rms", a.inv_rms, 1, a.x.rows, master_of(dtype));
  check_that(a.width > 0, "rms_norm_forward: width must be positive");
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.y));
  call_backend(
      "rms_norm",
      stream,
      dtype,
      [&] { reference::rms_norm_forward(stream, a); },
      [&] { cpu::rms_norm_forward(stream, a); });
}

void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a) {
  const DType dtype = a.x.dtype;
  check_shape("rms_norm_backward_input: dy", a.dy, a.x.rows, a.x.cols, dtype);
  check_shape("rms_norm_backward_input: gain", a.gain, 1, a.x.cols, master_of(dtype));
  check_shape("rms_norm_backward_input: inv_rms", a.inv_rms, 1, a.x.rows, master_of(dtype));
  check_shape("rms_norm_backward_input: dx", a.dx, a.x.rows, a.x.cols, dtype);
  check_that(a.width > 0, "rms_norm_backward_input: width must be positive");
  if (a.residual.data != nullptr) {
    check_shape("rms_norm_backward_input: residual", a.residual, a.x.rows, a.x.cols, dtype);
  }
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x, a.residual, a.dx));
  call_backend(
      "rms_norm",
      stream,
      dtype,
      [&] { reference::rms_norm_backward_input(stream, a); },
      [&] { cpu::rms_norm_backward_input(stream, a); });
}

void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a) {
  const DType dtype = a.x.dtype;
  check_shape("rms_norm_backward_weight: dy", a.dy, a.x.rows, a.x.cols, dtype);
  check_shape("rms_norm_backward_weight: inv_rms", a.inv_rms, 1, a.x.rows, master_of(dtype));
  check_shape("rms_norm_backward_weight: dgain", a.dgain, 1, a.x.cols, master_of(dtype));
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x));
  call_backend(
      "rms_norm",
      stream,
      dtype,
      [&] { reference::rms_norm_backward_weight(stream, a); },
      [&] { cpu::rms_norm_backward_weight(stream, a); });
}

}  // namespace cambium::kernels
