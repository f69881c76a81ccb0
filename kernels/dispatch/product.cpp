// kernels/dispatch/product.cpp — checks shapes for all backends, counts, and dispatches.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/product.hpp"

#include <fmt/core.h>

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {
namespace {

using device::Backend;

void check_dtype(const Stream& stream, DType dtype) {
  const bool fits = dtype == DType::f32 || dtype == DType::bf16 ||
                    (dtype == DType::f64 && stream.backend() == Backend::reference);
  CAMBIUM_CHECK(fits,
                fmt::format("products on {}: f32 and bf16 only (f64 on reference)",
                            name_of(stream.backend())));
}

// An output or residual of a product of `dtype`, which in bf16 may be f32 as well.
void check_stream(const char* what, const View& v, dim_t rows, dim_t cols, DType dtype) {
  const bool is_wide = dtype == DType::bf16 && v.dtype == DType::f32;
  check_shape(what, v, rows, cols, is_wide ? DType::f32 : dtype);
}

void check_accumulates(const char* what, const View& out, Accumulate accumulate) {
  CAMBIUM_CHECK(accumulate == Accumulate::no || out.dtype != DType::bf16,
                fmt::format("{}: a bf16 output cannot hold an unfinished chain", what));
}

// `cpu` does not read the plain weight, so it may be absent there; panels alone do not tell ragged
// sizes.
void check_plain(
    const char* what, const Stream& stream, const View& w, dim_t n, dim_t k, DType dtype) {
  if (stream.backend() == Backend::reference || w.data != nullptr) {
    check_shape(what, w, n, k, master_of(dtype));
  }
}

// The panels of a (columns, k) operand, which only `cpu` reads.
void check_panels(const char* what, const View& panels, dim_t columns, dim_t k, DType dtype) {
  const bool fits = panels.dtype == dtype && panels.is_contiguous() &&
                    panels.size() == packed_elements(columns, k, dtype) &&
                    (panels.data != nullptr || panels.size() == 0);
  CAMBIUM_CHECK(
      fits,
      fmt::format("{}: expected the product's panels of {} columns and {} sums, got ({}, {})",
                  what,
                  columns,
                  k,
                  panels.rows,
                  panels.cols));
}

// The weight is read once, whatever is written.
double packed_bytes(const Weight& w) {
  return bytes_in(w.plain, w.forward, w.transposed);
}

[[noreturn]] void throw_no_backend(Backend backend) {
  throw Error(
      Code::usage,
      fmt::format("products: backend {} is not in this build; use run.device: cpu or reference",
                  name_of(backend)));
}

// Counts the product; until the end of the scope that it returns, time counts as `work`.
[[nodiscard]] WorkScope count(Stream& stream, Work work, dim_t m, dim_t n, dim_t k) {
  stream.counters().product_flops += 2 * m * n * k;
  return WorkScope(stream.profile(), work, static_cast<double>(2 * m * n * k));
}

}  // namespace

void pack_weight(Stream& stream, const Weight& w) {
  if (stream.backend() == Backend::reference) {
    return;
  }
  CAMBIUM_CHECK(w.plain.dtype == DType::f32, "pack_weight: plain is not f32");
  for (const View& panels : {w.forward, w.transposed}) {
    CAMBIUM_CHECK(panels.empty() || panels.dtype == DType::f32 || panels.dtype == DType::bf16,
                  "pack_weight: panels are neither f32 nor bf16");
  }
  CAMBIUM_CHECK(w.forward.empty() || w.transposed.empty() || w.forward.dtype == w.transposed.dtype,
                "pack_weight: forward and transposed panels differ in dtype");
  if (!w.forward.empty()) {
    check_panels("pack_weight: forward", w.forward, w.plain.rows, w.plain.cols, w.forward.dtype);
  }
  if (!w.transposed.empty()) {
    check_panels(
        "pack_weight: transposed", w.transposed, w.plain.cols, w.plain.rows, w.transposed.dtype);
  }
  if (stream.backend() != Backend::cpu) {
    throw_no_backend(stream.backend());
  }
  const WorkScope scope(stream.profile(), Work::pack, 0, packed_bytes(w));
  cpu::pack_weight(stream, w);
}

void product_forward(Stream& stream, const ProductForward& a) {
  const dim_t m = a.x.rows;
  const dim_t k = a.x.cols;
  const dim_t n = a.y.cols;
  const DType dtype = a.x.dtype;
  check_dtype(stream, dtype);
  check_stream("product_forward: y", a.y, m, n, dtype);
  check_accumulates("product_forward", a.y, a.accumulate);
  check_plain("product_forward: w", stream, a.w.plain, n, k, dtype);
  if (!a.residual.empty()) {
    check_stream("product_forward: residual", a.residual, m, n, dtype);
    CAMBIUM_CHECK(a.residual.data != a.y.data || a.residual.dtype == a.y.dtype,
                  "product_forward: a residual that is y, of another dtype");
  }
  if (!a.bias.empty()) {
    check_shape("product_forward: bias", a.bias, 1, n, master_of(dtype));
  }
  CAMBIUM_CHECK(a.accumulate == Accumulate::no || (a.residual.empty() && a.bias.empty()),
                "product_forward: accumulate together with a residual or a bias");
  const WorkScope scope = count(stream, Work::product_forward, m, n, k);
  switch (stream.backend()) {
    case Backend::reference:
      return reference::product_forward(stream, a);
    case Backend::cpu:
      check_panels("product_forward: w.forward", a.w.forward, n, k, dtype);
      return cpu::product_forward(stream, a);
    case Backend::cuda:
      break;
  }
  throw_no_backend(stream.backend());
}

void product_backward_input(Stream& stream, const ProductBackwardInput& a) {
  const dim_t m = a.dy.rows;
  const dim_t n = a.dy.cols;
  const dim_t k = a.dx.cols;
  const DType dtype = a.dy.dtype;
  check_dtype(stream, dtype);
  check_stream("product_backward_input: dx", a.dx, m, k, dtype);
  check_accumulates("product_backward_input", a.dx, a.accumulate);
  check_plain("product_backward_input: w", stream, a.w.plain, n, k, dtype);
  const WorkScope scope = count(stream, Work::product_backward_input, m, n, k);
  switch (stream.backend()) {
    case Backend::reference:
      return reference::product_backward_input(stream, a);
    case Backend::cpu:
      check_panels("product_backward_input: w.transposed", a.w.transposed, k, n, dtype);
      return cpu::product_backward_input(stream, a);
    case Backend::cuda:
      break;
  }
  throw_no_backend(stream.backend());
}

void product_backward_weight(Stream& stream, const ProductBackwardWeight& a) {
  const dim_t m = a.dy.rows;
  const dim_t n = a.dy.cols;
  const dim_t k = a.x.cols;
  const DType dtype = a.dy.dtype;
  check_dtype(stream, dtype);
  check_shape("product_backward_weight: x", a.x, m, k, dtype);
  check_shape("product_backward_weight: dw", a.dw, n, k, master_of(dtype));
  const WorkScope scope = count(stream, Work::product_backward_weight, m, n, k);
  switch (stream.backend()) {
    case Backend::reference:
      return reference::product_backward_weight(stream, a);
    case Backend::cpu:
      return cpu::product_backward_weight(stream, a);
    case Backend::cuda:
      break;
  }
  throw_no_backend(stream.backend());
}

}  // namespace cambium::kernels
