// kernels/cpu/product_tile.hpp — the innermost tile of a product: what each ISA provides.
//
// A tile is up to `rows` x `columns` outputs held in registers while the sum index runs. Its
// operands are packed: A as blocks of rows, B as panels of kPanelWidth columns, both with the sum
// index outermost, so that every ISA reads the same panels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/product.hpp"

namespace cambium::kernels::cpu {

// Where the chains of a tile start, where they are left, and what is added to the finished ones.
struct TileOutput {
  const float* start;  // null: the chains start at +0
  dim_t start_stride;
  const float* add;  // null: nothing; else out = add + chain, rounded once
  dim_t add_stride;
  float* out;
  dim_t out_stride;
};

// out[i,j] = chain over s of fma(a[s*R + i], b[s*kPanelWidth + j], chain), s ascending in [0, sum),
// for i < R, j < columns. R is the function's own; columns beyond the edge are neither read nor
// written in the output.
using TileFunction =
    void (*)(dim_t sum, const float* a, const float* b, int columns, const TileOutput& o);

struct TileKernel {
  int rows;                       // largest R
  int columns;                    // of one call; divides kPanelWidth
  const TileFunction* functions;  // functions[R - 1] for R = 1 … rows
};

[[nodiscard]] const TileKernel& tile_avx2();
[[nodiscard]] const TileKernel& tile_avx512();

}  // namespace cambium::kernels::cpu
