// kernels/elementwise.hpp — sums of two, copies, and the gated residual.
// f32, f64 (reference only) and bf16. `add`, `add_into` and `copy` take f32 and bf16 in any
// mixture: they compute in f32 and round once, to nearest even. Elsewhere activations are of one
// dtype; a gate and its gradient are f32 beside bf16. Throws: Error(bug) when shapes or dtypes
// disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

// to[r,c] = to[r,c] + from[r,c]: one node of a sum tree.
void add_into(Stream& stream, View to, View from);

// y = a + b; y may alias either.
void add(Stream& stream, View a, View b, View y);

void copy(Stream& stream, View from, View to);

void fill_zero(Stream& stream, View to);

// to *= factor, which is rounded first: to the dtype, or to f32 beside bf16.
void scale(Stream& stream, View to, double factor);

struct GatedResidualForward {
  View x;     // (R, D)
  View r;     // (R, D)
  View gate;  // (1, D)
  View y;     // (R, D) = fma(gate, r, x); may alias x
};

void gated_residual_forward(Stream& stream, const GatedResidualForward& a);

struct GatedResidualBackward {
  View dy;    // (R, D)
  View gate;  // (1, D)
  View dr;    // (R, D) = gate * dy
};

void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a);

struct GatedResidualBackwardWeight {
  View dy;     // (R, D)
  View r;      // (R, D)
  View dgate;  // (1, D), always added to
};

// dgate[d] += sum_r dy[r,d] * r[r,d]: rows ascending, one fma chain a column, going on from dgate.
void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a);

}  // namespace cambium::kernels
