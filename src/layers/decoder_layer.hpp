// layers/decoder_layer.hpp — the one decoder layer, built from its LayerSpec:
// x1 = x + o(attention(rope(q, k), v)) of norm(x);  x2 = x1 + down(act) of norm(x1), where act is
// silu(gate) * up or gelu(up); the norm, rope and a bias on each product as the spec has them;
// blocks where inserted. Backward is two acts: backward_input is on the critical path;
// backward_weight adds weight gradients later, micro-batches ascending. Norm gains and gates add
// their token sums in backward_input, which is ascending too. Order: per logical tensor shard q, k,
// v (then gate, up) are one chain in the input gradient; shards by the tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/recompute.hpp"
#include "kernels/rope.hpp"
#include "layers/gated_block.hpp"
#include "layers/norm.hpp"
#include "layers/rope_tables.hpp"
#include "layers/tensor_context.hpp"
#include "model/inventory.hpp"
#include "model/spec.hpp"

namespace cambium::layers {

class DecoderLayer {
 public:
  // blocks[m]: the blocks behind module m, in order. `rope` is null where positions are learned.
  DecoderLayer(const model::LayerSpec& spec,
               Bucket& bucket,
               std::vector<std::vector<GatedBlock>> blocks,
               const RopeTable* rope,
               TensorContext& context,
               Recompute recompute);

  // What backward_input leaves for backward_weight: memory of the layer's own, or shared.
  void place_gradients(Arena& activations);

  // Shared with layers that are at work before and after this one; what backward_weight needs must
  // then be read before the next layer's backward_input, and forward may run only between
  // backwards. incoming: holds incoming(); not that of the layer behind or before. work: all else.
  struct Shared {
    std::size_t incoming_bytes = 0;
    std::size_t work_bytes = 0;
  };

  [[nodiscard]] Shared shared_bytes();
  void place_gradients(const Buffer& incoming, const Buffer& work);

  // What one micro-batch in flight keeps. With recomputation some of it stands in `work` instead,
  // from recompute() to backward_weight.
  struct Saved {
    Buffer memory;
    View kept;  // stream rows; full: the output, where `out` is shared
    View x;     // stream rows; the producer's
    NormStatistics norm_attention, norm_mlp;
    View normed_attention,
        normed_mlp;           // stream rows: a norm's output where a block follows it, else unused
    View h_attention, h_mlp;  // (T*B, D): gathered inputs of the products
    std::vector<View> q, k, v, attention;  // per shard (T*B, heads*E/tp); q, k behind rope
    std::vector<View> lse;                 // per shard (B*heads/tp, T)
    View mid, out;                         // stream rows: behind attention, behind the mlp
    View x_mlp;                            // what the mlp's norm read
    std::vector<View> gate, up, product;   // per shard (T*B, F/tp); gate of swiglu only
    std::vector<GatedBlock::Saved> blocks[model::kLayerModules];
  };

  // After place_gradients.
  [[nodiscard]] Saved make_saved(Arena& activations);

  View forward(View x, Saved& saved, Mode mode);

  // Right before backward_input: makes again what forward did not keep. Collective over: tensor.
  void recompute(Saved& saved);

  // Where the gradient of this layer's output must stand (stream rows) before backward_input.
  [[nodiscard]] View incoming() const;
  void backward_input(Saved& saved, View dx);
  void backward_weight(Saved& saved);

 private:
  Part& part(dim_t k, dim_t i);
  void plan_gradients(MemoryPlan& incoming, MemoryPlan& work);
  void plan_saved(Saved& saved, MemoryPlan& keep, MemoryPlan& work);
  View attention_forward(View x, Saved& saved, Mode mode);
  void mlp_forward(View x, Saved& saved, Mode mode);
  View mlp_output(View x, Saved& saved);
  View keep_output(View y, Saved& saved);
  void recompute_cheap(Saved& saved);
  void attention_backward_input(Saved& saved, View dx);
  void mlp_backward_input(Saved& saved, View dx);
  [[nodiscard]] bool has(dim_t k) const;
  [[nodiscard]] View bias_of(dim_t k, dim_t i);
  [[nodiscard]] Norm norm_of(int module) const;
  [[nodiscard]] static NormStatistics& statistics_of(int module, Saved& saved);
  void project(dim_t k, dim_t bias, dim_t i, View x, View y);
  void turn(View x, kernels::Turn direction);
  void norm_forward(View x, View normed, View h, int module, Saved& saved, Mode mode);
  void norm_backward(int module, Saved& saved, View x, View residual, View dx);
  void activate(Saved& saved, std::size_t i);
  void activate_backward(Saved& saved, std::size_t i);
  void add_weight_gradient(dim_t k, dim_t i, View dy, View x);
  void add_cut_bias_gradient(dim_t k, dim_t i, View dy);
  void add_whole_bias_gradient(dim_t k, dim_t i, View dy);
  View run_blocks(int module, View x, Saved& saved, Mode mode);
  View block_incoming(int module, View otherwise) const;
  void run_blocks_backward(int module, Saved& saved, View otherwise);
  [[nodiscard]] bool is_closed(dim_t projection) const;

  model::LayerSpec spec_;
  Bucket& bucket_;
  std::array<dim_t, model::kLayerParameters> index_;  // in the entity; -1: this layer has none
  std::vector<std::vector<GatedBlock>> blocks_;
  const RopeTable* rope_;
  TensorContext& context_;
  Recompute recompute_;
  std::vector<dim_t> heads_, kv_heads_;  // per shard
  std::vector<kernels::Weight> o_, down_;
  Buffer gradients_;                // empty when shared
  const Buffer* work_ = nullptr;    // shared memory, of which gradients take the first
  std::size_t gradient_bytes_ = 0;  // bytes
  View d_out_, d_mid_;  // (T*B, D), gathered: gradients behind the mlp and behind attention
  View dh_;             // stream rows: gradient of a norm's output
  std::vector<View> dq_, dk_, dv_, d_attention_, d_product_;
  std::vector<std::vector<View>> block_gradients_;  // [module][block]: incoming, stream rows
  bool is_attention_live_ = false;
  bool is_mlp_live_ = false;
};

}  // namespace cambium::layers
