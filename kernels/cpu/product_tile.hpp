// kernels/cpu/product_tile.hpp — the innermost tile of a product: what each ISA provides.
//
// A tile is up to `rows` x `columns` outputs held in registers while the sum index runs. Its
// operands are packed: A as blocks of rows, B as panels of kPanelWidth columns, both with the sum
// index outermost, so that every ISA reads the same panels. One unit of an operand is 4 bytes: an
// f32, or two bf16 of neighbouring sum indices, the even one in the lower half.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/product.hpp"

namespace cambium::kernels::cpu {

// Where the chains of a tile start, where they are left, and what is added to the finished ones:
// out = add + (chain + bias), each rounded in f32, and once more to bf16 where out is that.
struct TileOutput {
  const float* start;  // null: the chains start at +0
  dim_t start_stride;
  const float* bias;  // null: nothing; one value a column
  const void* add;    // null: nothing
  dim_t add_stride;
  bool add_is_bf16;
  bool out_is_bf16;
  void* out;
  dim_t out_stride;
};

// For i < R, j < columns: the chain over units s of A[s*R + i] and B[s*kPanelWidth + j], s
// ascending in [0, sum). R is the function's own; columns beyond the edge are neither read nor
// written in the output. Float mode: denormals on, before and after.
using TileFunction =
    void (*)(dim_t sum, const float* a, const float* b, int columns, const TileOutput& o);

struct TileKernel {
  int rows;                       // largest R
  int columns;                    // of one call; divides kPanelWidth
  const TileFunction* functions;  // functions[R - 1] for R = 1 … rows
};

// f32: chain = fma(a, b, chain).
[[nodiscard]] const TileKernel& tile_avx2();
[[nodiscard]] const TileKernel& tile_avx512();

// bf16: chain = fma(a.even, b.even, fma(a.odd, b.odd, chain)), denormals flushed. The first widens
// to f32, the second is the instruction `vdpbf16ps`.
[[nodiscard]] const TileKernel& tile_bf16_avx2();
[[nodiscard]] const TileKernel& tile_bf16_avx512();

// Whether the machine has `vdpbf16ps` and it gives the bits of tile_bf16_avx2 (tried once, with
// denormals and numbers at their edge).
[[nodiscard]] bool has_exact_bf16_instruction();

}  // namespace cambium::kernels::cpu
