// kernels/cuda/rms_norm.hpp — the CUDA functions of kernels/rms_norm.hpp, f32.
// Shapes: views as there, in device memory.
//
// Order:  that of kernels/rms_norm.hpp: 16 lanes a row, whatever the warp's width, so the bits are
//         the CPU's.
//
// Throws: Error(bug) on wrong shapes or dtypes, Error(device) on a failed launch. Asynchronous on
//         `stream`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rms_norm.hpp"

namespace cambium::kernels::cuda {

void rms_norm_forward(Stream& stream, const RmsNormForward& a);
void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a);
void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a);

}  // namespace cambium::kernels::cuda
