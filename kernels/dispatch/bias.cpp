// kernels/dispatch/bias.cpp — checks shapes once for all backends and calls the stream's backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/bias.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void add_bias(Stream& stream, const AddBias& a) {
  const DType dtype = a.x.dtype;
  check_shape("add_bias: bias", a.bias, 1, a.x.cols, master_of(dtype));
  check_mixed("add_bias: y", a.y, a.x.rows, a.x.cols, dtype);
  if (a.residual.data != nullptr) {
    check_mixed("add_bias: residual", a.residual, a.x.rows, a.x.cols, dtype);
  }
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.residual, a.y));
  call_backend(
      "bias",
      stream,
      dtype,
      [&] { reference::add_bias(stream, a); },
      [&] { cpu::add_bias(stream, a); });
}

void bias_backward(Stream& stream, const BiasBackward& a) {
  const DType dtype = a.dy.dtype;
  check_shape("bias_backward: dbias", a.dbias, 1, a.dy.cols, master_of(dtype));
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy));
  call_backend(
      "bias",
      stream,
      dtype,
      [&] { reference::bias_backward(stream, a); },
      [&] { cpu::bias_backward(stream, a); });
}

}  // namespace cambium::kernels
