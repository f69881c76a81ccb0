// kernels/rope.hpp — rotary position embedding, half-split layout (element e turns with e + E/2).
// Source: Su et al. 2021 (RoFormer), in the layout of Hugging Face's Llama. Tables are stored,
//         never recomputed from sizes.
// bf16:   activations and their gradients may be bf16: widened when read, computed in f32, rounded
// to
//         nearest even when written. The tables are f32 then.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

enum class Turn { forward, backward };

struct Rope {
  View x;       // (T*batch, heads*E)  f32 | f64 | bf16, in place; row t*batch + b
  View cosine;  // (T, E/2)  f32 | f64
  View sine;    // (T, E/2)
  dim_t batch;
  dim_t head_width;  // E, even
};

// lo' = lo*c - hi*s (fma(lo, c, -(hi*s))), hi' = hi*c + lo*s (fma(hi, c, lo*s)); backward takes -s.
void rope(Stream& stream, const Rope& a, Turn turn);

}  // namespace cambium::kernels
