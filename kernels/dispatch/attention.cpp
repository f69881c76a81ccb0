// kernels/dispatch/attention.cpp — checks shapes once for all backends, counts, and calls the
// stream's backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/attention.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {
namespace {

// Multiply and add of both products of the causal half: 2 * 2*E for each pair of a query and a key
// not after it.
template <typename A>
std::int64_t forward_flops(const A& a) {
  const dim_t tokens = a.q.rows / a.batch;
  return a.batch * a.heads * 4 * a.head_width * (tokens * (tokens + 1) / 2);
}

template <typename A>
void check_inputs(const A& a) {
  const DType dtype = a.q.dtype;
  check_that(a.batch > 0 && a.head_width > 0 && a.kv_heads > 0,
             "attention: a size is not positive");
  check_that(a.heads > 0 && a.heads % a.kv_heads == 0, "attention: kv_heads does not divide heads");
  check_that(a.q.rows % a.batch == 0, "attention: rows are no multiple of batch");
  const dim_t rows = a.q.rows;
  const dim_t tokens = rows / a.batch;
  check_shape("attention: q", a.q, rows, a.heads * a.head_width, dtype);
  check_shape("attention: k", a.k, rows, a.kv_heads * a.head_width, dtype);
  check_shape("attention: v", a.v, rows, a.kv_heads * a.head_width, dtype);
  check_shape("attention: out", a.out, rows, a.heads * a.head_width, dtype);
  check_shape("attention: lse", a.lse, a.batch * a.heads, tokens, master_of(dtype));
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& a) {
  check_inputs(a);
  const std::int64_t count = forward_flops(a);
  stream.counters().attention_flops += count;
  const WorkScope scope(stream.profile(),
                        Work::attention,
                        static_cast<double>(count),
                        bytes_in(a.q, a.k, a.v, a.out));
  call_backend(
      "attention",
      stream,
      a.q.dtype,
      [&] { reference::attention_forward(stream, a); },
      [&] { cpu::attention_forward(stream, a); });
}

void attention_backward(Stream& stream, const AttentionBackward& a) {
  check_inputs(a);
  check_shape("attention: dout", a.dout, a.q.rows, a.q.cols, a.q.dtype);
  check_shape("attention: dq", a.dq, a.q.rows, a.q.cols, a.q.dtype);
  check_shape("attention: dk", a.dk, a.k.rows, a.k.cols, a.q.dtype);
  check_shape("attention: dv", a.dv, a.k.rows, a.k.cols, a.q.dtype);
  const std::int64_t count = forward_flops(a) / 2 * 5;
  stream.counters().attention_flops += count;
  const WorkScope scope(stream.profile(),
                        Work::attention,
                        static_cast<double>(count),
                        bytes_in(a.q, a.k, a.v, a.out, a.dout, a.dq, a.dk, a.dv));
  call_backend(
      "attention",
      stream,
      a.q.dtype,
      [&] { reference::attention_backward(stream, a); },
      [&] { cpu::attention_backward(stream, a); });
}

}  // namespace cambium::kernels
