// kernels/dispatch/layer_norm.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/layer_norm.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {
namespace {

void check_width(const char* what, dim_t width, dim_t features) {
  check_that(width > 0 && width <= features, what);
}

}  // namespace

void layer_norm_forward(Stream& stream, const LayerNormForward& a) {
  const DType dtype = a.x.dtype;
  check_shape("layer_norm_forward: gain", a.gain, 1, a.x.cols, master_of(dtype));
  check_shape("layer_norm_forward: bias", a.bias, 1, a.x.cols, master_of(dtype));
  check_shape("layer_norm_forward: y", a.y, a.x.rows, a.x.cols, dtype);
  check_shape("layer_norm_forward: mean", a.mean, 1, a.x.rows, master_of(dtype));
  check_shape("layer_norm_forward: inv_std", a.inv_std, 1, a.x.rows, master_of(dtype));
  check_width("layer_norm_forward: width must be 1 to the features", a.width, a.x.cols);
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.y));
  call_backend(
      "layer_norm",
      stream,
      dtype,
      [&] { reference::layer_norm_forward(stream, a); },
      [&] { cpu::layer_norm_forward(stream, a); });
}

void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a) {
  const DType dtype = a.x.dtype;
  check_shape("layer_norm_backward_input: dy", a.dy, a.x.rows, a.x.cols, dtype);
  check_shape("layer_norm_backward_input: gain", a.gain, 1, a.x.cols, master_of(dtype));
  check_shape("layer_norm_backward_input: mean", a.mean, 1, a.x.rows, master_of(dtype));
  check_shape("layer_norm_backward_input: inv_std", a.inv_std, 1, a.x.rows, master_of(dtype));
  check_shape("layer_norm_backward_input: dx", a.dx, a.x.rows, a.x.cols, dtype);
  check_width("layer_norm_backward_input: width must be 1 to the features", a.width, a.x.cols);
  if (a.residual.data != nullptr) {
    check_shape("layer_norm_backward_input: residual", a.residual, a.x.rows, a.x.cols, dtype);
  }
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x, a.residual, a.dx));
  call_backend(
      "layer_norm",
      stream,
      dtype,
      [&] { reference::layer_norm_backward_input(stream, a); },
      [&] { cpu::layer_norm_backward_input(stream, a); });
}

void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a) {
  const DType dtype = a.x.dtype;
  check_shape("layer_norm_backward_weight: dy", a.dy, a.x.rows, a.x.cols, dtype);
  check_shape("layer_norm_backward_weight: mean", a.mean, 1, a.x.rows, master_of(dtype));
  check_shape("layer_norm_backward_weight: inv_std", a.inv_std, 1, a.x.rows, master_of(dtype));
  check_shape("layer_norm_backward_weight: dgain", a.dgain, 1, a.x.cols, master_of(dtype));
  check_shape("layer_norm_backward_weight: dbias", a.dbias, 1, a.x.cols, master_of(dtype));
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.dy, a.x));
  call_backend(
      "layer_norm",
      stream,
      dtype,
      [&] { reference::layer_norm_backward_weight(stream, a); },
      [&] { cpu::layer_norm_backward_weight(stream, a); });
}

}  // namespace cambium::kernels
