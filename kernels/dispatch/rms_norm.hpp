// kernels/dispatch/rms_norm.hpp — what each backend defines for kernels/rms_norm.hpp. Arguments are
// already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rms_norm.hpp"

namespace cambium::kernels::reference {

void rms_norm_forward(Stream& stream, const RmsNormForward& a);
void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a);
void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void rms_norm_forward(Stream& stream, const RmsNormForward& a);
void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a);
void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a);

}  // namespace cambium::kernels::cpu
