// kernels/dispatch/product.hpp — what each backend defines for kernels/product.hpp.
// Arguments are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/product.hpp"

namespace cambium::kernels::reference {

void product_forward(Stream& stream, const ProductForward& a);
void product_backward_input(Stream& stream, const ProductBackwardInput& a);
void product_backward_weight(Stream& stream, const ProductBackwardWeight& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void pack_weight(Stream& stream, const Weight& w);
void product_forward(Stream& stream, const ProductForward& a);
void product_backward_input(Stream& stream, const ProductBackwardInput& a);
void product_backward_weight(Stream& stream, const ProductBackwardWeight& a);

}  // namespace cambium::kernels::cpu
