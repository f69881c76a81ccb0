// kernels/dispatch/rope.cpp — checks shapes once for all backends and calls the stream's backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rope.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void rope(Stream& stream, const Rope& a, Turn turn) {
  const DType dtype = a.x.dtype;
  check_that(a.batch > 0 && a.x.rows % a.batch == 0, "rope: rows are no multiple of batch");
  check_that(a.head_width > 0 && a.head_width % 2 == 0 && a.x.cols % a.head_width == 0,
             "rope: head_width is odd or does not divide the columns");
  check_shape("rope: x", a.x, a.x.rows, a.x.cols, dtype);
  check_shape("rope: cosine", a.cosine, a.x.rows / a.batch, a.head_width / 2, master_of(dtype));
  check_shape("rope: sine", a.sine, a.x.rows / a.batch, a.head_width / 2, master_of(dtype));
  const WorkScope scope(stream.profile(), Work::rows, 0, bytes_in(a.x, a.x));
  call_backend(
      "rope",
      stream,
      dtype,
      [&] { reference::rope(stream, a, turn); },
      [&] { cpu::rope(stream, a, turn); });
}

}  // namespace cambium::kernels
