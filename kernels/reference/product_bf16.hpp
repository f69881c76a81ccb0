// kernels/reference/product_bf16.hpp — rows of bf16 products. The float mode is the caller's:
// denormals on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/product.hpp"

namespace cambium::kernels::reference {

// Output rows `rows` of y, dx or dw.
void compute_bf16(const ProductForward& a, Range rows);
void compute_bf16(const ProductBackwardInput& a, Range rows);
void compute_bf16(const ProductBackwardWeight& a, Range rows);

}  // namespace cambium::kernels::reference
