// kernels/layer_norm.hpp — layer normalisation over the last axis.
// Source: Ba, Kiros, Hinton 2016, eq. 4; gain g, bias b, biased variance, eps inside the root. The
//         statistics are those of the first `width` features (design.md §1.10): features that were
//         appended by growth are normalised with them and do not move them.
// Order:  row sums use 16 lanes (lane j adds elements j, j+16, … ascending), then the lanes as a
//         tree of neighbours (design.md §1.12); lanes of products are fma chains. The variance is a
//         second pass over x - mean. f64 (reference only) the same lanes in double.
// bf16:   activations and their gradients may be bf16: widened when read, computed in f32, rounded
// to
//         nearest even when written. gain, bias, mean, inv_std, dgain and dbias are f32 then.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

struct LayerNormForward {
  View x;        // (R, D)  f32 | f64 | bf16
  View gain;     // (1, D)
  View bias;     // (1, D)
  View y;        // (R, D)  may alias x
  View mean;     // (1, R)  kept for backward
  View inv_std;  // (1, R)  kept for backward
  dim_t width;   // features that the statistics are of; D unless the axis was grown
  double eps;
};

// mean[r] = sum_{d<width} x[r,d] / width
// inv_std[r] = 1 / sqrt(sum_{d<width} (x[r,d] - mean[r])^2 / width + eps)
// y[r,d] = fma(n[r,d], gain[d], bias[d]),  n[r,d] = (x[r,d] - mean[r]) * inv_std[r]
// Cost: reads and writes R*D once.
void layer_norm_forward(Stream& stream, const LayerNormForward& a);

struct LayerNormBackwardInput {
  View dy;       // (R, D)
  View x;        // (R, D)
  View gain;     // (1, D)
  View mean;     // (1, R)
  View inv_std;  // (1, R)
  // (R, D) or empty: the gradient that flows past the norm, added last; may alias dx
  View residual;
  View dx;  // (R, D); may alias dy
  dim_t width;
};

// s = dy*gain;  pull = (sum_d s) / width;  twist = (sum_d s*n) / width, both over all D features;
// dx = [residual +] inv_std * fma(-twist, n, s - pull), and inv_std * s from feature `width` on.
void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a);

struct LayerNormBackwardWeight {
  View dy;       // (R, D)
  View x;        // (R, D)
  View mean;     // (1, R)
  View inv_std;  // (1, R)
  View dgain;    // (1, D), always added to
  View dbias;    // (1, D), always added to
};

// dgain[d] += sum_r dy[r,d] * n[r,d] by fma, dbias[d] += sum_r dy[r,d]: rows ascending, one chain a
// column each, going on from what stands there.
void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a);

}  // namespace cambium::kernels
