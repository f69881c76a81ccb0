// kernels/activation.hpp — SwiGLU, SiLU and the tanh form of GELU.
// Source: Shazeer 2020 (GLU variants). silu(z) = z * s with s = 1 / (1 + exp(-z)); its slope is
//         s * fma(z, 1 - s, 1). Backward: dgate = (dy*up) * slope, dup = dy * silu.
//         Hendrycks & Gimpel 2016: gelu(z) = z/2 (1 + tanh(u)), u = sqrt(2/pi) (z + 0.044715 z^3).
//         Since (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), it is z * s with s of
//         v = 2u = z * fma(c, z^2, b), and far below zero nothing cancels. Its slope is
//         fma((z*s) * (1 - s), fma(3c, z^2, b), s); b = 2 sqrt(2/pi), c = 0.044715 b, 3c rounded
//         once.
// Element-wise: no sums. exp by our own polynomial in f32, the same on `reference` and `cpu`; libm
// in f64.
// bf16:   activations and their gradients may be bf16: widened when read, computed in f32, rounded
// to
//         nearest even when written. No sums, so nothing stays f32.
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

struct GeluTanhForward {
  View x;  // (R, F)
  View y;  // (R, F); may alias x
};

void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a);

struct GeluTanhBackward {
  View dy;  // (R, F)
  View x;   // (R, F)
  View dx;  // (R, F); may alias dy or x
};

void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a);

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
