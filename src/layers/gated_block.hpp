// layers/gated_block.hpp — the inserted block: y = x + gate * B silu(A norm(x)), on the residual
// stream or a norm's output. While closed (its gate was never updated) y is x, bit for bit: nothing
// is added, and in inference nothing is computed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/memory_plan.hpp"
#include "layers/tensor_context.hpp"
#include "model/spec.hpp"

namespace cambium::layers {

// A train micro-batch keeps what backward needs; a forward-only one computes nothing for it.
enum class Mode { train, forward_only };

class GatedBlock {
 public:
  GatedBlock(const model::InsertedBlock& spec, Bucket& bucket, TensorContext& context);

  struct Saved {
    View x;               // stream rows; borrowed from the producer
    View inv_rms;         // (1, stream rows)
    View h;               // (T*B, D) normed
    std::vector<View> z;  // per shard (T*B, W/tp), before the activation
    std::vector<View> s;  // behind it
    View r;               // stream rows: B s
    View y;               // stream rows
  };

  // The owner's plan places the block's memory: what backward_input leaves for backward_weight, and
  // what a micro-batch keeps; `cheap` takes what recompute() can make again. The block and `saved`
  // stay where they are from here on.
  void plan_gradients(MemoryPlan& plan);
  void plan_saved(Saved& saved, MemoryPlan& plan, MemoryPlan& cheap);

  // Returns the output: saved.y, or x itself while closed.
  View forward(View x, Saved& saved, Mode mode);
  // After forward in train mode: h and s again. Collective over: tensor.
  void recompute(Saved& saved);
  // dx may not alias dy.
  void backward_input(View dy, Saved& saved, View dx);
  void backward_weight(Saved& saved);

  [[nodiscard]] bool is_closed() const;

 private:
  Part& part(dim_t k, dim_t i);
  void norm_forward(Saved& saved);
  [[nodiscard]] View spread_gate();
  void fold_gate_gradient(View dy, const Saved& saved);

  model::InsertedBlock spec_;
  Bucket& bucket_;
  TensorContext& context_;
  std::vector<kernels::Weight> b_;  // per local shard
  View dr_full_;                    // (T*B, D)
  std::vector<View> dz_;            // per shard (T*B, W/tp)
  View dh_;                         // stream rows
  View gate_row_;                   // (1, D): a scalar gate spread over the row
  bool is_branch_live_ = false;
};

}  // namespace cambium::layers
