// kernels/dispatch/elementwise.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/elementwise.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void add_into(Stream& stream, View to, View from) {
  check_mixed("add_into: from", from, to.rows, to.cols, to.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(to, to, from));
  call_backend(
      "elementwise",
      stream,
      to.dtype,
      [&] { reference::add_into(stream, to, from); },
      [&] { cpu::add_into(stream, to, from); });
}

void add(Stream& stream, View a, View b, View y) {
  check_mixed("add: b", b, a.rows, a.cols, a.dtype);
  check_mixed("add: y", y, a.rows, a.cols, a.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a, b, y));
  call_backend(
      "elementwise",
      stream,
      a.dtype,
      [&] { reference::add(stream, a, b, y); },
      [&] { cpu::add(stream, a, b, y); });
}

// Bytes have no dtype: copies within one and zeros take any, on every backend.
void copy(Stream& stream, View from, View to) {
  check_mixed("copy: to", to, from.rows, from.cols, from.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(from, to));
  call_backend(
      "elementwise",
      stream,
      DType::f32,
      [&] { reference::copy(stream, from, to); },
      [&] { cpu::copy(stream, from, to); });
}

void fill_zero(Stream& stream, View to) {
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(to));
  call_backend(
      "elementwise",
      stream,
      DType::f32,
      [&] { reference::fill_zero(stream, to); },
      [&] { cpu::fill_zero(stream, to); });
}

void scale(Stream& stream, View to, double factor) {
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(to, to));
  call_backend(
      "elementwise",
      stream,
      to.dtype,
      [&] { reference::scale(stream, to, factor); },
      [&] { cpu::scale(stream, to, factor); });
}

void gated_residual_forward(Stream& stream, const GatedResidualForward& a) {
  const DType dtype = a.x.dtype;
  check_shape("gated_residual_forward: r", a.r, a.x.rows, a.x.cols, dtype);
  check_shape("gated_residual_forward: gate", a.gate, 1, a.x.cols, master_of(dtype));
  check_shape("gated_residual_forward: y", a.y, a.x.rows, a.x.cols, dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.r, a.y));
  call_backend(
      "elementwise",
      stream,
      dtype,
      [&] { reference::gated_residual_forward(stream, a); },
      [&] { cpu::gated_residual_forward(stream, a); });
}

void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a) {
  const DType dtype = a.dy.dtype;
  check_shape("gated_residual_backward_input: gate", a.gate, 1, a.dy.cols, master_of(dtype));
  check_shape("gated_residual_backward_input: dr", a.dr, a.dy.rows, a.dy.cols, dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.dr));
  call_backend(
      "elementwise",
      stream,
      dtype,
      [&] { reference::gated_residual_backward_input(stream, a); },
      [&] { cpu::gated_residual_backward_input(stream, a); });
}

void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a) {
  const DType dtype = a.dy.dtype;
  check_shape("gated_residual_backward_weight: r", a.r, a.dy.rows, a.dy.cols, dtype);
  check_shape("gated_residual_backward_weight: dgate", a.dgate, 1, a.dy.cols, master_of(dtype));
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.r));
  call_backend(
      "elementwise",
      stream,
      dtype,
      [&] { reference::gated_residual_backward_weight(stream, a); },
      [&] { cpu::gated_residual_backward_weight(stream, a); });
}

}  // namespace cambium::kernels
