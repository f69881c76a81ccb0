// layers/decoder_layer_memory.cpp — what a decoder layer keeps, and where: memory of its own, of a
// micro-batch, or shared with the other layers of the stage.
// SPDX-License-Identifier: Apache-2.0
#include "layers/decoder_layer.hpp"
#include "layers/decoder_layer_names.hpp"

namespace cambium::layers {

void DecoderLayer::plan_gradients(MemoryPlan& incoming, MemoryPlan& work) {
  const auto n = static_cast<std::size_t>(context_.shards().size());
  const dim_t rows = context_.rows();
  const dim_t d = context_.shape.hidden;
  const dim_t stream_rows = context_.stream_rows().size();
  const DType dtype = context_.shape.dtype;
  for (auto* list : {&dq_, &dk_, &dv_, &d_attention_, &d_product_}) {
    list->resize(n);
  }
  incoming.add(d_out_, dtype, rows, d);
  work.add(d_mid_, dtype, rows, d);
  work.add(dh_, dtype, stream_rows, d);
  for (std::size_t i = 0; i < n; ++i) {
    const auto shard = static_cast<dim_t>(i);
    const dim_t q = part(kQ, shard).rows.size();
    const dim_t kv = part(kK, shard).rows.size();
    work.add(dq_[i], dtype, rows, q);
    work.add(dk_[i], dtype, rows, kv);
    work.add(dv_[i], dtype, rows, kv);
    work.add(d_attention_[i], dtype, rows, q);
    work.add(d_product_[i], dtype, rows, part(kUp, shard).rows.size());
  }
  block_gradients_.resize(model::kLayerModules);
  for (int m = 0; m < model::kLayerModules; ++m) {
    auto& blocks = blocks_[static_cast<std::size_t>(m)];
    auto& gradients = block_gradients_[static_cast<std::size_t>(m)];
    gradients.resize(blocks.size());
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      (m == kMlp ? incoming : work).add(gradients[j], dtype, stream_rows, d);
      blocks[j].plan_gradients(work);
    }
  }
}

void DecoderLayer::place_gradients(Arena& activations) {
  CAMBIUM_CHECK(recompute_ == Recompute::none, "recomputation needs shared memory");
  MemoryPlan plan;
  plan_gradients(plan, plan);
  gradients_ = plan.allocate(activations);
}

DecoderLayer::Shared DecoderLayer::shared_bytes() {
  MemoryPlan incoming;
  MemoryPlan work;
  plan_gradients(incoming, work);
  gradient_bytes_ = work.bytes();
  Saved s;
  MemoryPlan keep;
  plan_saved(s, keep, work);
  return {incoming.bytes(), work.bytes()};
}

void DecoderLayer::place_gradients(const Buffer& incoming, const Buffer& work) {
  MemoryPlan first;
  MemoryPlan rest;
  plan_gradients(first, rest);
  first.place(incoming, 0);
  rest.place(work, 0);
  gradient_bytes_ = rest.bytes();
  work_ = &work;
}

void DecoderLayer::plan_saved(Saved& s, MemoryPlan& keep, MemoryPlan& work) {
  const auto n = static_cast<std::size_t>(context_.shards().size());
  const dim_t rows = context_.rows();
  const dim_t d = context_.shape.hidden;
  const dim_t stream_rows = context_.stream_rows().size();
  const DType dtype = context_.shape.dtype;
  const DType sums = context_.shape.sums();
  MemoryPlan& most = recompute_ == Recompute::full ? work : keep;
  MemoryPlan& cheap = recompute_ == Recompute::none ? keep : work;
  for (auto* list : {&s.q, &s.k, &s.v, &s.attention, &s.lse, &s.gate, &s.up, &s.product}) {
    list->resize(n);
  }
  const bool has_blocks_behind_out = !blocks_[kMlp].empty();
  if (recompute_ == Recompute::full && has_blocks_behind_out) {
    keep.add(s.kept, dtype, stream_rows, d);
    work.add(s.out, dtype, stream_rows, d);
  } else {
    keep.add(s.out, dtype, stream_rows, d);
  }
  for (NormStatistics* kept : {&s.norm_attention, &s.norm_mlp}) {
    most.add(kept->inv, sums, 1, stream_rows);
    if (spec_.norm == model::NormKind::layer) {
      most.add(kept->mean, sums, 1, stream_rows);
    }
  }
  (blocks_[kAttentionNorm].empty() ? cheap : most).add(s.h_attention, dtype, rows, d);
  (blocks_[kMlpNorm].empty() ? cheap : most).add(s.h_mlp, dtype, rows, d);
  most.add(s.mid, dtype, stream_rows, d);
  if (!blocks_[kAttentionNorm].empty()) {
    most.add(s.normed_attention, dtype, stream_rows, d);
  }
  if (!blocks_[kMlpNorm].empty()) {
    most.add(s.normed_mlp, dtype, stream_rows, d);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto shard = static_cast<dim_t>(i);
    const dim_t q = part(kQ, shard).rows.size();
    const dim_t kv = part(kK, shard).rows.size();
    const dim_t f = part(kUp, shard).rows.size();
    most.add(s.q[i], dtype, rows, q);
    most.add(s.k[i], dtype, rows, kv);
    most.add(s.v[i], dtype, rows, kv);
    most.add(s.attention[i], dtype, rows, q);
    most.add(s.lse[i], sums, context_.shape.batch * heads_[i], context_.shape.positions);
    if (has(kGate)) {
      most.add(s.gate[i], dtype, rows, f);
    }
    most.add(s.up[i], dtype, rows, f);
    cheap.add(s.product[i], dtype, rows, f);
  }
  for (int m = 0; m < model::kLayerModules; ++m) {
    auto& blocks = blocks_[static_cast<std::size_t>(m)];
    s.blocks[m].resize(blocks.size());
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      blocks[j].plan_saved(s.blocks[m][j], most, cheap);
    }
  }
}

DecoderLayer::Saved DecoderLayer::make_saved(Arena& activations) {
  Saved s;
  MemoryPlan keep;
  MemoryPlan work;
  plan_saved(s, keep, work);
  s.memory = keep.allocate(activations);
  if (work.bytes() > 0) {
    work.place(*work_, gradient_bytes_);
  }
  return s;
}

}  // namespace cambium::layers
