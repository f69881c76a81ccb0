// kernels/dispatch/layer_norm.hpp — what each backend defines for kernels/layer_norm.hpp. Arguments
// are already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm.hpp"

namespace cambium::kernels::reference {

void layer_norm_forward(Stream& stream, const LayerNormForward& a);
void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a);
void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void layer_norm_forward(Stream& stream, const LayerNormForward& a);
void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a);
void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a);

}  // namespace cambium::kernels::cpu
