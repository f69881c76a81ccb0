// kernels/dispatch/cross_entropy.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/cross_entropy.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a) {
  const DType dtype = a.logits.dtype;
  check_that(dtype != DType::bf16, "cross_entropy_statistics: logits are bf16, expected f32");
  check_shape("cross_entropy_statistics: targets", a.targets, 1, a.logits.rows, DType::i32);
  check_shape("cross_entropy_statistics: statistics", a.statistics, 3, a.logits.rows, dtype);
  const WorkScope scope(stream.profile(), Work::head, 0, bytes_in(a.logits));
  call_backend(
      "cross_entropy",
      stream,
      dtype,
      [&] { reference::cross_entropy_statistics(stream, a); },
      [&] { cpu::cross_entropy_statistics(stream, a); });
}

void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a) {
  const DType dtype = a.statistics.dtype;
  const dim_t rows = a.statistics.cols;
  check_that(a.shards > 0, "cross_entropy_combine: no shards");
  check_shape("cross_entropy_combine: statistics", a.statistics, 3 * a.shards, rows, dtype);
  check_shape("cross_entropy_combine: maximum", a.maximum, 1, rows, dtype);
  check_shape("cross_entropy_combine: sum", a.sum, 1, rows, dtype);
  check_shape("cross_entropy_combine: loss", a.loss, 1, rows, dtype);
  check_shape("cross_entropy_combine: targets", a.targets, 1, rows, DType::i32);
  const WorkScope scope(stream.profile(), Work::head, 0, bytes_in(a.statistics));
  call_backend(
      "cross_entropy",
      stream,
      dtype,
      [&] { reference::cross_entropy_combine(stream, a); },
      [&] { cpu::cross_entropy_combine(stream, a); });
}

void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a) {
  const DType dtype = a.logits.dtype;
  const dim_t rows = a.logits.rows;
  check_shape("cross_entropy_gradient: targets", a.targets, 1, rows, DType::i32);
  check_shape("cross_entropy_gradient: maximum", a.maximum, 1, rows, dtype);
  check_shape("cross_entropy_gradient: sum", a.sum, 1, rows, dtype);
  if (a.gradient.data != nullptr) {
    check_mixed("cross_entropy_gradient: gradient", a.gradient, rows, a.logits.cols, dtype);
    check_that(a.gradient.data != a.logits.data || a.gradient.dtype == dtype,
               "cross_entropy_gradient: a gradient in place, of another dtype");
  }
  check_that(dtype != DType::bf16, "cross_entropy_gradient: logits are bf16, expected f32");
  if (a.weight.data != nullptr) {
    check_shape("cross_entropy_gradient: weight", a.weight, 1, rows, dtype);
  }
  const WorkScope scope(stream.profile(),
                        Work::head,
                        0,
                        bytes_in(a.logits, a.gradient.data == nullptr ? a.logits : a.gradient));
  call_backend(
      "cross_entropy",
      stream,
      dtype,
      [&] { reference::cross_entropy_gradient(stream, a); },
      [&] { cpu::cross_entropy_gradient(stream, a); });
}

}  // namespace cambium::kernels
