// kernels/activation.hpp — SwiGLU and SiLU.
// Source: Shazeer 2020 (GLU variants). silu(z) = z * s with s = 1 / (1 + exp(-z)); its slope is
//         s * fma(z, 1 - s, 1). Backward: dgate = (dy*up) * slope, dup = dy * silu.
// Element-wise: no sums. exp by our own polynomial in f32, the same on `reference` and `cpu`; libm
// in f64.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

struct SwigluForward {
  View gate;  // (R, F)
  View up;    // (R, F)
  View y;     // (R, F) = silu(gate) * up
};

void swiglu_forward(Stream& stream, const SwigluForward& a);

struct SwigluBackward {
  View dy;     // (R, F)
  View gate;   // (R, F)
  View up;     // (R, F)
  View dgate;  // (R, F); may alias gate
  View dup;    // (R, F); may alias up
};

void swiglu_backward(Stream& stream, const SwigluBackward& a);

struct SiluForward {
  View x;  // (R, F)
  View y;  // (R, F)
};

void silu_forward(Stream& stream, const SiluForward& a);

struct SiluBackward {
  View dy;  // (R, F)
  View x;   // (R, F)
  View dx;  // (R, F); may alias dy
};

void silu_backward(Stream& stream, const SiluBackward& a);

}  // namespace cambium::kernels
