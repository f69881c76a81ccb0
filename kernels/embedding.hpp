// kernels/embedding.hpp — table lookup and its gradient, for one vocabulary shard; learned
// positions. An id outside the shard, negative ones included, is another shard's business and left
// alone; `data` checks ids. Activations (out, x, dy) may be bf16, rounded to nearest even when
// written; tables and their gradients are f32 then.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

struct EmbeddingForward {
  View table;       // (V/tp, D)
  View ids;         // (1, R) i32
  View out;         // (R, D): rows whose id is in this shard are written, the others are left alone
  dim_t first_row;  // id of the shard's row 0
};

void embedding_forward(Stream& stream, const EmbeddingForward& a);

struct EmbeddingBackward {
  View ids;     // (1, R) i32
  View dy;      // (R, D)
  View dtable;  // (V/tp, D), always added to
  dim_t first_row;
};

// dtable[id[r]] += dy[r], rows ascending. Threads split columns, never rows.
void embedding_backward(Stream& stream, const EmbeddingBackward& a);

// A block of position-major rows: row r of x is sample (first_row + r) % batch at position
// (first_row + r) / batch, which must be a row of the table.
struct PositionsForward {
  View table;  // (P, D)
  View x;      // (R, D), in place
  dim_t first_row;
  dim_t batch;  // B
};

// x[r] = x[r] + table[(first_row + r) / batch]
void positions_forward(Stream& stream, const PositionsForward& a);

struct PositionsBackward {
  View dy;      // (R, D)
  View dtable;  // (P, D), always added to
  dim_t first_row;
  dim_t batch;
};

// dtable[(first_row + r) / batch] += dy[r], rows ascending. Threads split columns, never rows.
void positions_backward(Stream& stream, const PositionsBackward& a);

}  // namespace cambium::kernels
