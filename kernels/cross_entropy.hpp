// kernels/cross_entropy.hpp — softmax cross-entropy over vocabulary shards, by chunks of rows.
// Two passes: each shard's statistics, then (when they are combined over shards) the gradient in
// place. A target of kIgnore counts for nothing and has a zero gradient.
// Order:  A row's maximum is exact (-0 is stored as +0, NaN is ignored); its sum of exp uses 16
//         lanes (design.md §1.12); shards are combined by the tree. A shard whose logits are all
//         -inf, or that is empty, has the maximum -inf and the sum 0 and adds nothing. In f32 exp
//         and log are our own.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

inline constexpr std::int32_t kIgnore = -100;

struct CrossEntropyStatistics {
  View logits;      // (R, V/tp)  f32 | f64
  View targets;     // (1, R) i32, global ids
  dim_t first_row;  // id of the shard's column 0
  // (3, R): row maximum; sum of exp(logit - that maximum); the target's logit, or 0 where it is
  // elsewhere
  View statistics;
};

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a);

struct CrossEntropyCombine {
  View statistics;  // (3*S, R): the shards' statistics one above the other
  dim_t shards;     // S
  View maximum;     // (1, R)
  View sum;         // (1, R): tree over shards of sum_s * exp(max_s - maximum)
  View loss;        // (1, R) = log(sum) + (maximum - target logit); 0 where ignored
  View targets;     // (1, R) i32
};

void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a);

struct CrossEntropyGradient {
  View logits;   // (R, V/tp)  f32 | f64; overwritten by the gradient where that has no view
  View targets;  // (1, R) i32
  View maximum;  // (1, R)
  View sum;      // (1, R)
  View weight;   // (1, R) or empty (all 1): factor of each row's loss
  dim_t first_row;
  double scale;  // 1 / valid tokens of the whole step
  // (R, V/tp) or empty; may alias logits where it has their dtype, may be bf16 beside f32 logits
  View gradient = {};
};

// dlogit = (exp(logit - maximum) * (1 / sum) - [column is the target]) * (scale * weight), scale
// rounded once to the dtype.
void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a);

}  // namespace cambium::kernels
