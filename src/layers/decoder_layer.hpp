// layers/decoder_layer.hpp — the one decoder layer, built from its LayerSpec:
// x1 = x + o(attention(rope(q, k), v)) of norm(x);  x2 = x1 + down(silu(gate) * up) of norm(x1);
// blocks where inserted. Backward is two acts: backward_input is on the critical path;
// backward_weight adds weight gradients later, micro-batches ascending. Norm gains and gates add
// their token sums in backward_input, which is ascending too. Order: per logical tensor shard q, k,
// v (then gate, up) are one chain in the input gradient; shards by the tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "layers/gated_block.hpp"
#include "layers/rope_tables.hpp"
#include "layers/tensor_context.hpp"
#include "model/spec.hpp"

namespace cambium::layers {

class DecoderLayer {
 public:
  // blocks[m]: the blocks behind module m, in order.
  DecoderLayer(const model::LayerSpec& spec,
               Bucket& bucket,
               std::vector<std::vector<GatedBlock>> blocks,
               const RopeTable& rope,
               TensorContext& context,
               Arena& activations);

  // What one micro-batch in flight keeps.
  struct Saved {
    Buffer memory;
    View x;                               // stream rows; the producer's
    View inv_rms_attention, inv_rms_mlp;  // (1, stream rows)
    View normed_attention,
        normed_mlp;           // stream rows: a norm's output where a block follows it, else unused
    View h_attention, h_mlp;  // (T*B, D): gathered inputs of the products
    std::vector<View> q, k, v, attention;  // per shard (T*B, heads*E/tp); q, k behind rope
    std::vector<View> lse;                 // per shard (B*heads/tp, T)
    View mid, out;                         // stream rows: behind attention, behind the mlp
    View x_mlp;                            // what the mlp's norm read
    std::vector<View> gate, up, product;   // per shard (T*B, F/tp)
    std::vector<GatedBlock::Saved> blocks[model::kLayerModules];
  };

  [[nodiscard]] Saved make_saved(Arena& activations);

  View forward(View x, Saved& saved, Mode mode);

  // Where the gradient of this layer's output must stand (stream rows) before backward_input.
  [[nodiscard]] View incoming() const;
  void backward_input(Saved& saved, View dx);
  void backward_weight(Saved& saved);

 private:
  Part& part(dim_t k, dim_t i);
  View attention_forward(View x, Saved& saved, Mode mode);
  View mlp_forward(View x, Saved& saved, Mode mode);
  void attention_backward_input(Saved& saved, View dx);
  void mlp_backward_input(Saved& saved, View dx);
  void norm_forward(
      dim_t gain, View x, View inv_rms, View normed, View h, int module, Saved& saved, Mode mode);
  void norm_backward(
      dim_t gain, int module, Saved& saved, View x, View inv_rms, View residual, View dx);
  void add_weight_gradient(dim_t k, dim_t i, View dy, View x);
  View run_blocks(int module, View x, Saved& saved, Mode mode);
  View block_incoming(int module, View otherwise) const;
  void run_blocks_backward(int module, Saved& saved, View otherwise);
  [[nodiscard]] bool is_closed(dim_t projection) const;

  model::LayerSpec spec_;
  Bucket& bucket_;
  std::vector<std::vector<GatedBlock>> blocks_;
  const RopeTable& rope_;
  TensorContext& context_;
  std::vector<dim_t> heads_, kv_heads_;  // per shard
  std::vector<kernels::Weight> o_, down_;
  Buffer gradients_;
  View d_out_, d_mid_;  // (T*B, D), gathered: gradients behind the mlp and behind attention
  View dh_;             // stream rows: gradient of a norm's output
  std::vector<View> dq_, dk_, dv_, d_attention_, d_product_;
  std::vector<std::vector<View>> block_gradients_;  // [module][block]: incoming, stream rows
  bool is_attention_live_ = false;
  bool is_mlp_live_ = false;
};

}  // namespace cambium::layers
