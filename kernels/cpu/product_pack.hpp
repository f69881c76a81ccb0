// kernels/cpu/product_pack.hpp — rearranging operands for the tiles. Moves values, never computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/product.hpp"

namespace cambium::kernels::cpu {

// to[s*width + i] = from[i*stride + s] for i < count ≤ width, s < sum: `count` rows become one
// block of columns. Zeros in count … width-1.
void pack_transposed(
    const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

// to[s*width + i] = from[s*stride + i] for i < count ≤ width, s < sum. Zeros in count … width-1.
void pack_copied(const float* from, dim_t stride, dim_t count, dim_t sum, float* to, dim_t width);

}  // namespace cambium::kernels::cpu
