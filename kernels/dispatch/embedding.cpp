// kernels/dispatch/embedding.cpp — checks shapes once for all backends and calls the stream's
// backend.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/embedding.hpp"

#include "kernels/dispatch/checks.hpp"

namespace cambium::kernels {
namespace {

void check_positions(const char* what, dim_t first_row, dim_t rows, dim_t batch, dim_t positions) {
  check_that(batch > 0 && first_row >= 0 && first_row + rows <= positions * batch, what);
}

}  // namespace

void embedding_forward(Stream& stream, const EmbeddingForward& a) {
  check_shape("embedding_forward: ids", a.ids, 1, a.out.rows, DType::i32);
  check_shape(
      "embedding_forward: table", a.table, a.table.rows, a.out.cols, master_of(a.out.dtype));
  const WorkScope scope(stream.profile(), Work::embedding, 0, bytes_in(a.out, a.out));
  call_backend(
      "embedding",
      stream,
      a.out.dtype,
      [&] { reference::embedding_forward(stream, a); },
      [&] { cpu::embedding_forward(stream, a); });
}

void embedding_backward(Stream& stream, const EmbeddingBackward& a) {
  check_shape("embedding_backward: ids", a.ids, 1, a.dy.rows, DType::i32);
  check_shape(
      "embedding_backward: dtable", a.dtable, a.dtable.rows, a.dy.cols, master_of(a.dy.dtype));
  const WorkScope scope(stream.profile(), Work::embedding, 0, bytes_in(a.dy, a.dy, a.dy));
  call_backend(
      "embedding",
      stream,
      a.dy.dtype,
      [&] { reference::embedding_backward(stream, a); },
      [&] { cpu::embedding_backward(stream, a); });
}

void positions_forward(Stream& stream, const PositionsForward& a) {
  check_shape("positions_forward: table", a.table, a.table.rows, a.x.cols, master_of(a.x.dtype));
  check_positions("positions_forward: rows behind the table's last position",
                  a.first_row,
                  a.x.rows,
                  a.batch,
                  a.table.rows);
  const WorkScope scope(stream.profile(), Work::embedding, 0, bytes_in(a.x, a.x));
  call_backend(
      "embedding",
      stream,
      a.x.dtype,
      [&] { reference::positions_forward(stream, a); },
      [&] { cpu::positions_forward(stream, a); });
}

void positions_backward(Stream& stream, const PositionsBackward& a) {
  check_shape(
      "positions_backward: dtable", a.dtable, a.dtable.rows, a.dy.cols, master_of(a.dy.dtype));
  check_positions("positions_backward: rows behind the table's last position",
                  a.first_row,
                  a.dy.rows,
                  a.batch,
                  a.dtable.rows);
  const WorkScope scope(stream.profile(), Work::embedding, 0, bytes_in(a.dy));
  call_backend(
      "embedding",
      stream,
      a.dy.dtype,
      [&] { reference::positions_backward(stream, a); },
      [&] { cpu::positions_backward(stream, a); });
}

}  // namespace cambium::kernels
