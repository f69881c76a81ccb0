// layers/norm.hpp — the norm of a family over rows of the residual stream: RMSNorm, or LayerNorm
// with its bias. Gradients of gain and bias are token sums: into the leaves of this rank's shards,
// each over its slice of the sequence (design.md §1.8).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers/tensor_context.hpp"
#include "model/spec.hpp"

namespace cambium::layers {

struct Norm {
  model::NormKind kind = model::NormKind::rms;
  double eps = 0;
  dim_t width = 0;  // features that the statistics are of
  Bucket* bucket = nullptr;
  dim_t gain = 0;  // the parameter in the bucket's entity
  dim_t bias = 0;  // LayerNorm's
};

// What forward leaves for backward, (1, stream rows) each; RMSNorm has no mean.
struct NormStatistics {
  View inv;
  View mean;
};

// y may alias x.
void norm_forward(TensorContext& context, const Norm& norm, View x, View y, NormStatistics kept);

// Adds the gradients of gain and bias; dx = [residual +] the gradient of x. dx may alias dy.
void norm_backward(TensorContext& context,
                   const Norm& norm,
                   View dy,
                   View x,
                   NormStatistics kept,
                   View residual,
                   View dx);

}  // namespace cambium::layers
