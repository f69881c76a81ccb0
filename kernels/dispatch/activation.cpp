// kernels/dispatch/activation.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/activation.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void swiglu_forward(Stream& stream, const SwigluForward& a) {
  const DType dtype = a.gate.dtype;
  check_shape("swiglu_forward: up", a.up, a.gate.rows, a.gate.cols, dtype);
  check_shape("swiglu_forward: y", a.y, a.gate.rows, a.gate.cols, dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.gate, a.up, a.y));
  call_backend(
      "activation",
      stream,
      dtype,
      [&] { reference::swiglu_forward(stream, a); },
      [&] { cpu::swiglu_forward(stream, a); });
}

void swiglu_backward(Stream& stream, const SwigluBackward& a) {
  const DType dtype = a.gate.dtype;
  check_shape("swiglu_backward: dy", a.dy, a.gate.rows, a.gate.cols, dtype);
  check_shape("swiglu_backward: up", a.up, a.gate.rows, a.gate.cols, dtype);
  check_shape("swiglu_backward: dgate", a.dgate, a.gate.rows, a.gate.cols, dtype);
  check_shape("swiglu_backward: dup", a.dup, a.gate.rows, a.gate.cols, dtype);
  const WorkScope scope(
      stream.profile(), Work::rows, 0, bytes_in(a.dy, a.gate, a.up, a.dgate, a.dup));
  call_backend(
      "activation",
      stream,
      dtype,
      [&] { reference::swiglu_backward(stream, a); },
      [&] { cpu::swiglu_backward(stream, a); });
}

void silu_forward(Stream& stream, const SiluForward& a) {
  check_shape("silu_forward: y", a.y, a.x.rows, a.x.cols, a.x.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.y));
  call_backend(
      "activation",
      stream,
      a.x.dtype,
      [&] { reference::silu_forward(stream, a); },
      [&] { cpu::silu_forward(stream, a); });
}

void silu_backward(Stream& stream, const SiluBackward& a) {
  check_shape("silu_backward: dy", a.dy, a.x.rows, a.x.cols, a.x.dtype);
  check_shape("silu_backward: dx", a.dx, a.x.rows, a.x.cols, a.x.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x, a.dx));
  call_backend(
      "activation",
      stream,
      a.x.dtype,
      [&] { reference::silu_backward(stream, a); },
      [&] { cpu::silu_backward(stream, a); });
}

void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a) {
  check_shape("gelu_tanh_forward: y", a.y, a.x.rows, a.x.cols, a.x.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.y));
  call_backend(
      "activation",
      stream,
      a.x.dtype,
      [&] { reference::gelu_tanh_forward(stream, a); },
      [&] { cpu::gelu_tanh_forward(stream, a); });
}

void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a) {
  check_shape("gelu_tanh_backward: dy", a.dy, a.x.rows, a.x.cols, a.x.dtype);
  check_shape("gelu_tanh_backward: dx", a.dx, a.x.rows, a.x.cols, a.x.dtype);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x, a.dx));
  call_backend(
      "activation",
      stream,
      a.x.dtype,
      [&] { reference::gelu_tanh_backward(stream, a); },
      [&] { cpu::gelu_tanh_backward(stream, a); });
}

}  // namespace cambium::kernels
