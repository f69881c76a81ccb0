// kernels/adamw.hpp — fused AdamW over whole grains, and the squares of the global norm.
// Source: Loshchilov & Hutter 2019; decoupled decay before the update, eps outside the root of the
//         bias-corrected second moment.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

struct AdamWUpdate {
  View value;       // (1, n) f32 | f64
  View gradient;    // (1, n)
  View exp_avg;     // (1, n)
  View exp_avg_sq;  // (1, n)
  // the gradient is multiplied by this first (1 = no clipping), in the views' dtype
  double clip;
  double learning_rate;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  std::int64_t updates;  // t ≥ 1 of this segment
};

// With c1 = 1/(1-b1^t) and c2 = 1/(1-b2^t):
//   g *= clip;  m = fma(b1, m, (1-b1) g);  v = fma(b2, v, ((1-b2) g) g);
//   w = fma(-lr, (m c1) / (sqrt(v c2) + eps), w (1 - lr wd)).
// Scalars (1-b1, c1, 1 - lr wd, …) are made in f64 and rounded once to the views' dtype.
// Element-wise: no sums.
void adamw_update(Stream& stream, const AdamWUpdate& a);

struct GrainSquares {
  View gradient;  // (1, n)
  dim_t grain;    // elements of a grain; the last may be shorter
  View squares;   // (1, ceil(n/grain)) f64
};

// squares[i] = sum over grain i of (double)g^2, ascending, one fp64 accumulator a grain (design.md
// §1.7).
void grain_squares(Stream& stream, const GrainSquares& a);

}  // namespace cambium::kernels
