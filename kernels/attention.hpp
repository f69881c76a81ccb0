// kernels/attention.hpp — causal grouped-query attention in tiles; T x T is never held.
// Source: Dao et al. 2022 (FlashAttention), online softmax; log-sum-exp kept, scores recomputed in
//         backward.
// Rows are t*batch + b. Query head h reads key-value head h / (heads/kv_heads).
// Order:  A score is scale * (one fma chain over E ascending from +0). Keys 0 … t of query t, and
// no
//         others, are walked in tiles of kKeyTile at absolute positions. A query starts with
//         maximum m = -inf, sum l = 0, output o = 0; a tile does
//           m' = max(m, its scores);  p_k = exp(score_k - m');  c = exp(m - m');
//           l = fma(l, c, 16-lane sum of p), lanes counted from the tile's first key (§1.12);
//           o = o * c, then o = fma(p_k, v_k, o), keys ascending;  m = m'.
//         In the end out = o * (1 / l), lse = m + log(l).
//         Backward: p_k = exp(score_k - lse); delta = 16-lane fma sum over E of dout * out;
//         dp_k = fma chain over E of dout * v_k; ds_k = (p_k * (dp_k - delta)) * scale.
//         dq = fma chain of ds_k * k_k, keys ascending; dv, dk = fma chains of p * dout, ds * q
//         from +0, heads of the group ascending, then queries ascending. Bits do not depend on
//         batch, heads or thread count, nor on which queries share a call; what lies behind a
//         query, NaN included, does not reach it.
// Threads: forward splits (batch, head, query tile), backward (batch, key-value head).
// Cost:   FLOPs of the causal half are added to stream.counters().attention_flops:
//         4*E*T*(T+1)/2 a head, backward 2.5 times that.
// bf16:   activations and their gradients may be bf16: widened when read, computed in f32, rounded
// to
//         nearest even when written. q, k, v, out and their gradients are that then; lse is f32,
//         and all that is inside.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

inline constexpr dim_t kQueryTile = 64;
inline constexpr dim_t kKeyTile = 128;

struct AttentionForward {
  View q;    // (T*batch, heads*E)     f32 | f64 | bf16
  View k;    // (T*batch, kv_heads*E)
  View v;    // (T*batch, kv_heads*E)
  View out;  // (T*batch, heads*E)
  View lse;  // (batch*heads, T): log of the sum of exp(scaled score); kept for backward
  dim_t batch;
  dim_t heads;
  dim_t kv_heads;
  dim_t head_width;  // E
  double scale;      // stored per layer
};

void attention_forward(Stream& stream, const AttentionForward& a);

struct AttentionBackward {
  View q, k, v, out, lse;  // as forward
  View dout;               // (T*batch, heads*E)
  View dq;                 // (T*batch, heads*E)
  View dk;                 // (T*batch, kv_heads*E)
  View dv;                 // (T*batch, kv_heads*E)
  dim_t batch;
  dim_t heads;
  dim_t kv_heads;
  dim_t head_width;
  double scale;
};

void attention_backward(Stream& stream, const AttentionBackward& a);

}  // namespace cambium::kernels
