// kernels/rms_norm.hpp — root-mean-square normalisation over the last axis.
// Source: Zhang & Sennrich 2019, eq. 4; gain g, no bias, eps inside the root. `width` is the stored
//         divisor (design.md §1.10).
// Order:  row sums use 16 lanes (lane j adds elements j, j+16, … ascending), then the lanes as a
//         tree of neighbours (design.md §1.12); lanes are fma chains. f64 (reference only) the same
//         lanes in double.
// bf16:   activations and their gradients may be bf16: widened when read, computed in f32, rounded
// to
//         nearest even when written. gain, inv_rms and dgain are f32 then.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

struct RmsNormForward {
  View x;        // (R, D)  f32 | f64 | bf16
  View gain;     // (1, D)
  View y;        // (R, D)  may alias x
  View inv_rms;  // (1, R)  kept for backward
  dim_t width;   // divisor of the mean; D unless the axis was grown with zeros
  double eps;
};

// y[r,d] = (x[r,d] * inv_rms[r]) * gain[d],  inv_rms[r] = 1 / sqrt(sum_d x[r,d]^2 / width + eps)
// Cost: reads and writes R*D once.
void rms_norm_forward(Stream& stream, const RmsNormForward& a);

struct RmsNormBackwardInput {
  View dy;       // (R, D)
  View x;        // (R, D)
  View gain;     // (1, D)
  View inv_rms;  // (1, R)
  // (R, D) or empty: the gradient that flows past the norm, added last; may alias dx
  View residual;
  View dx;  // (R, D); may alias dy
  dim_t width;
};

// c[r] = sum_d (dy*gain)*x;  pull = (((inv_rms*inv_rms)*inv_rms)*c) / width;
// dx = [residual +] fma(-pull, x, inv_rms*(dy*gain))
void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a);

struct RmsNormBackwardWeight {
  View dy;       // (R, D)
  View x;        // (R, D)
  View inv_rms;  // (1, R)
  View dgain;    // (1, D), always added to
};

// dgain[d] += sum_r dy[r,d] * (x[r,d] * inv_rms[r]): rows ascending, one fma chain a column, going
// on from dgain.
void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a);

}  // namespace cambium::kernels
