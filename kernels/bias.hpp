// kernels/bias.hpp — a bias over the rows of a matrix, and its gradient.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

// x, y and the residual may each be f32 or bf16, beside an f32 bias: the sum is made in f32 and
// rounded once.
struct AddBias {
  View x;         // (R, D)  f32 | f64 | bf16
  View bias;      // (1, D)
  View y;         // (R, D); may alias x
  View residual;  // (R, D) or empty; may alias y
};

// y[r,d] = [residual[r,d] +] (x[r,d] + bias[d])
void add_bias(Stream& stream, const AddBias& a);

struct BiasBackward {
  View dy;     // (R, D)
  View dbias;  // (1, D), always added to; f32 beside a bf16 dy
};

// dbias[d] += sum_r dy[r,d]: rows ascending, one chain of additions a column, going on from dbias.
void bias_backward(Stream& stream, const BiasBackward& a);

}  // namespace cambium::kernels
