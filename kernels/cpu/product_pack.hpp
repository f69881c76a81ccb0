// kernels/cpu/product_pack.hpp — rearranging operands for the tiles. f32 and bf16 values are moved;
// an f32 master that becomes bf16 is rounded to nearest even on the way.
//
// `to` is in units of 4 bytes (product_tile.hpp): an f32, or a pair of bf16 of sum indices 2q and
// 2q+1, the even one in the lower half; an odd last one has a zero beside it. Columns count …
// width-1 become zeros. count ≤ width. Strides are in elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/bfloat16.hpp"
#include "kernels/product.hpp"

namespace cambium::kernels::cpu {

using device::BFloat16;

// to[s*width + i] = from[i*stride + s] for i < count, s < sum: `count` rows become one block of
// columns.
void pack_transposed(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

// to[s*width + i] = from[s*stride + i].
void pack_copied(const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

// The same two in pairs: unit q*width + i holds sum indices 2q and 2q+1 of column i.
void pack_transposed(
    const BFloat16* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);
void pack_copied(
    const BFloat16* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

// The same two in pairs from f32, rounded.
void pack_transposed_rounded(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);
void pack_copied_rounded(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

}  // namespace cambium::kernels::cpu
