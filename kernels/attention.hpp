// kernels/attention.hpp — causal grouped-query attention in tiles; T x T is never held.
// Source: Dao et al. 2022 (FlashAttention), online softmax; log-sum-exp kept, scores recomputed in backward.
// Rows are t*batch + b. Query head h reads key-value head h / (heads/kv_heads).
// Order:  a score is scale * (one fma chain over E ascending). Keys are walked in tiles of kKeyTile at absolute positions,
//         ascending; inside a tile row sums use 16 lanes (design.md §1.12), the output's sum one fma chain over keys ascending;
//         per tile the running maximum rescales sum and output. dq: keys ascending; dk, dv: heads of the group ascending,
//         then queries ascending, one chain. Bits do not depend on batch, heads or thread count, nor on which queries
//         share a call.
// Cost:   FLOPs of the causal half are added to stream.counters().attention_flops.
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
  View q;    // (T*batch, heads*E)     f32 | f64
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
