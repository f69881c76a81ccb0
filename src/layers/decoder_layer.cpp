// SPDX-License-Identifier: Apache-2.0
#include "layers/decoder_layer.hpp"

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "layers/memory_plan.hpp"

namespace cambium::layers {
namespace {

enum : dim_t {
  kNormA = 0,
  kQ = 1,
  kK = 2,
  kV = 3,
  kO = 4,
  kNormM = 5,
  kGate = 6,
  kUp = 7,
  kDown = 8
};

constexpr int kAttentionNorm = static_cast<int>(model::LayerModule::attention_norm);
constexpr int kAttention = static_cast<int>(model::LayerModule::attention);
constexpr int kMlpNorm = static_cast<int>(model::LayerModule::mlp_norm);
constexpr int kMlp = static_cast<int>(model::LayerModule::mlp);

}  // namespace

DecoderLayer::DecoderLayer(const model::LayerSpec& spec,
                           Bucket& bucket,
                           std::vector<std::vector<GatedBlock>> blocks,
                           const RopeTable& rope,
                           TensorContext& context,
                           Arena& activations)
    : spec_(spec), bucket_(bucket), blocks_(std::move(blocks)), rope_(rope), context_(context) {
  const auto n = static_cast<std::size_t>(context.shards().size());
  const dim_t rows = context.rows();
  const dim_t d = context.shape.hidden;
  const dim_t stream_rows = context.stream_rows().size();
  for (auto* list : {&dq_, &dk_, &dv_, &d_attention_, &d_product_}) {
    list->resize(n);
  }
  const DType dtype = context_.shape.dtype;
  MemoryPlan plan;
  plan.add(d_out_, dtype, rows, d);
  plan.add(d_mid_, dtype, rows, d);
  plan.add(dh_, dtype, stream_rows, d);
  for (std::size_t i = 0; i < n; ++i) {
    const auto shard = static_cast<dim_t>(i);
    const dim_t q = part(kQ, shard).rows.size();
    const dim_t kv = part(kK, shard).rows.size();
    heads_.push_back(q / spec.head_width);
    kv_heads_.push_back(kv / spec.head_width);
    o_.push_back(part(kO, shard).weight);
    down_.push_back(part(kDown, shard).weight);
    plan.add(dq_[i], dtype, rows, q);
    plan.add(dk_[i], dtype, rows, kv);
    plan.add(dv_[i], dtype, rows, kv);
    plan.add(d_attention_[i], dtype, rows, q);
    plan.add(d_product_[i], dtype, rows, part(kGate, shard).rows.size());
  }
  block_gradients_.resize(model::kLayerModules);
  for (int m = 0; m < model::kLayerModules; ++m) {
    block_gradients_[static_cast<std::size_t>(m)].resize(
        blocks_[static_cast<std::size_t>(m)].size());
    for (View& v : block_gradients_[static_cast<std::size_t>(m)]) {
      plan.add(v, dtype, stream_rows, d);
    }
  }
  gradients_ = plan.allocate(activations);
}

DecoderLayer::Saved DecoderLayer::make_saved(Arena& activations) {
  Saved s;
  const auto n = static_cast<std::size_t>(context_.shards().size());
  const dim_t rows = context_.rows();
  const dim_t d = context_.shape.hidden;
  const dim_t stream_rows = context_.stream_rows().size();
  for (auto* list : {&s.q, &s.k, &s.v, &s.attention, &s.lse, &s.gate, &s.up, &s.product}) {
    list->resize(n);
  }
  const DType dtype = context_.shape.dtype;
  const DType sums = context_.shape.sums();
  MemoryPlan plan;
  plan.add(s.inv_rms_attention, sums, 1, stream_rows);
  plan.add(s.inv_rms_mlp, sums, 1, stream_rows);
  plan.add(s.h_attention, dtype, rows, d);
  plan.add(s.h_mlp, dtype, rows, d);
  plan.add(s.mid, dtype, stream_rows, d);
  plan.add(s.out, dtype, stream_rows, d);
  if (!blocks_[kAttentionNorm].empty()) {
    plan.add(s.normed_attention, dtype, stream_rows, d);
  }
  if (!blocks_[kMlpNorm].empty()) {
    plan.add(s.normed_mlp, dtype, stream_rows, d);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const auto shard = static_cast<dim_t>(i);
    const dim_t q = part(kQ, shard).rows.size();
    const dim_t kv = part(kK, shard).rows.size();
    const dim_t f = part(kGate, shard).rows.size();
    plan.add(s.q[i], dtype, rows, q);
    plan.add(s.k[i], dtype, rows, kv);
    plan.add(s.v[i], dtype, rows, kv);
    plan.add(s.attention[i], dtype, rows, q);
    plan.add(s.lse[i], sums, context_.shape.batch * heads_[i], context_.shape.positions);
    plan.add(s.gate[i], dtype, rows, f);
    plan.add(s.up[i], dtype, rows, f);
    plan.add(s.product[i], dtype, rows, f);
  }
  s.memory = plan.allocate(activations);
  for (int m = 0; m < model::kLayerModules; ++m) {
    for (const GatedBlock& b : blocks_[static_cast<std::size_t>(m)]) {
      s.blocks[m].push_back(b.make_saved(activations));
    }
  }
  return s;
}

Part& DecoderLayer::part(dim_t k, dim_t i) {
  return bucket_.part(k, context_.shards().begin + i);
}

bool DecoderLayer::is_closed(dim_t projection) const {
  return spec_.born_closed && bucket_.part(projection, context_.shards().begin).updates == 0;
}

View DecoderLayer::run_blocks(int module, View x, Saved& saved, Mode mode) {
  auto& blocks = blocks_[static_cast<std::size_t>(module)];
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    x = blocks[j].forward(x, saved.blocks[module][j], mode);
  }
  return x;
}

View DecoderLayer::block_incoming(int module, View otherwise) const {
  const auto& list = block_gradients_[static_cast<std::size_t>(module)];
  return list.empty() ? otherwise : list.back();
}

void DecoderLayer::run_blocks_backward(int module, Saved& saved, View otherwise) {
  auto& blocks = blocks_[static_cast<std::size_t>(module)];
  const auto& gradients = block_gradients_[static_cast<std::size_t>(module)];
  for (std::size_t j = blocks.size(); j-- > 0;) {
    blocks[j].backward_input(
        gradients[j], saved.blocks[module][j], j > 0 ? gradients[j - 1] : otherwise);
  }
}

// Norm of the stream x into h's own rows (through the blocks behind the norm, if any), then all
// rows.
void DecoderLayer::norm_forward(
    dim_t gain, View x, View inv_rms, View normed, View h, int module, Saved& saved, Mode mode) {
  const View own = h.slice_rows(context_.stream_rows());
  const bool has_blocks = !blocks_[static_cast<std::size_t>(module)].empty();
  const View y = has_blocks ? normed : own;
  kernels::rms_norm_forward(context_.stream,
                            {.x = x,
                             .gain = part(gain, 0).weight.plain,
                             .y = y,
                             .inv_rms = inv_rms,
                             .width = spec_.norm_width,
                             .eps = spec_.norm_eps});
  if (has_blocks) {
    kernels::copy(context_.stream, run_blocks(module, y, saved, mode), own);
  }
  context_.gather(h);
}

View DecoderLayer::attention_forward(View x, Saved& saved, Mode mode) {
  Stream& stream = context_.stream;
  norm_forward(kNormA,
               x,
               saved.inv_rms_attention,
               saved.normed_attention,
               saved.h_attention,
               kAttentionNorm,
               saved,
               mode);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const View h = saved.h_attention;
    kernels::product_forward(stream,
                             {.x = h, .w = part(kQ, i).weight, .y = saved.q[at], .residual = {}});
    kernels::product_forward(stream,
                             {.x = h, .w = part(kK, i).weight, .y = saved.k[at], .residual = {}});
    kernels::product_forward(stream,
                             {.x = h, .w = part(kV, i).weight, .y = saved.v[at], .residual = {}});
    for (const View& turned : {saved.q[at], saved.k[at]}) {
      kernels::rope(stream,
                    {.x = turned,
                     .cosine = rope_.cosine,
                     .sine = rope_.sine,
                     .batch = context_.shape.batch,
                     .head_width = spec_.head_width},
                    kernels::Turn::forward);
    }
    kernels::attention_forward(stream,
                               {.q = saved.q[at],
                                .k = saved.k[at],
                                .v = saved.v[at],
                                .out = saved.attention[at],
                                .lse = saved.lse[at],
                                .batch = context_.shape.batch,
                                .heads = heads_[at],
                                .kv_heads = kv_heads_[at],
                                .head_width = spec_.head_width,
                                .scale = spec_.attention_scale});
  }
  if (is_closed(kO)) {
    return x;
  }
  context_.row_parallel(saved.attention, o_, x, saved.mid);
  return saved.mid;
}

View DecoderLayer::mlp_forward(View x, Saved& saved, Mode mode) {
  Stream& stream = context_.stream;
  saved.x_mlp = x;
  norm_forward(kNormM, x, saved.inv_rms_mlp, saved.normed_mlp, saved.h_mlp, kMlpNorm, saved, mode);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    kernels::product_forward(
        stream,
        {.x = saved.h_mlp, .w = part(kGate, i).weight, .y = saved.gate[at], .residual = {}});
    kernels::product_forward(
        stream, {.x = saved.h_mlp, .w = part(kUp, i).weight, .y = saved.up[at], .residual = {}});
    kernels::swiglu_forward(stream,
                            {.gate = saved.gate[at], .up = saved.up[at], .y = saved.product[at]});
  }
  if (is_closed(kDown)) {
    return x;
  }
  context_.row_parallel(saved.product, down_, x, saved.out);
  return saved.out;
}

View DecoderLayer::forward(View x, Saved& saved, Mode mode) {
  saved.x = x;
  const bool is_absent = mode == Mode::forward_only;
  View y = is_absent && is_closed(kO) ? x : attention_forward(x, saved, mode);
  y = run_blocks(kAttention, y, saved, mode);
  y = is_absent && is_closed(kDown) ? y : mlp_forward(y, saved, mode);
  return run_blocks(kMlp, y, saved, mode);
}

View DecoderLayer::incoming() const {
  return block_incoming(kMlp, d_out_.slice_rows(context_.stream_rows()));
}

void DecoderLayer::backward_input(Saved& saved, View dx) {
  const View d_out = d_out_.slice_rows(context_.stream_rows());
  const View d_mid = d_mid_.slice_rows(context_.stream_rows());
  run_blocks_backward(kMlp, saved, d_out);
  context_.gather(d_out_);
  mlp_backward_input(saved, block_incoming(kAttention, d_mid));
  run_blocks_backward(kAttention, saved, d_mid);
  context_.gather(d_mid_);
  attention_backward_input(saved, dx);
}

// The gradient of the norm's output stands in block_incoming(module, dh_).
void DecoderLayer::norm_backward(
    dim_t gain, int module, Saved& saved, View x, View inv_rms, View residual, View dx) {
  run_blocks_backward(module, saved, dh_);
  Part& g = part(gain, 0);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Range rows = context_.slice_in_stream(context_.shards().begin + i);
    if (rows.size() > 0) {
      kernels::rms_norm_backward_weight(context_.stream,
                                        {.dy = dh_.slice_rows(rows),
                                         .x = x.slice_rows(rows),
                                         .inv_rms = inv_rms.slice_cols(rows),
                                         .dgain = bucket_.leaf(0, g, i)});
    }
  }
  kernels::rms_norm_backward_input(context_.stream,
                                   {.dy = dh_,
                                    .x = x,
                                    .gain = g.weight.plain,
                                    .inv_rms = inv_rms,
                                    .residual = residual,
                                    .dx = dx,
                                    .width = spec_.norm_width});
}

void DecoderLayer::mlp_backward_input(Saved& saved, View dx) {
  Stream& stream = context_.stream;
  const View d_out = d_out_.slice_rows(context_.stream_rows());
  is_mlp_live_ = !is_closed(kDown);
  if (!is_mlp_live_) {
    kernels::copy(stream, d_out, dx);
    return;
  }
  context_.sum_over_shards(block_incoming(kMlpNorm, dh_), {}, [&](dim_t i, View leaf) {
    const auto at = static_cast<std::size_t>(i);
    kernels::product_backward_input(
        stream, {.dy = d_out_, .w = part(kDown, i).weight, .dx = d_product_[at]});
    kernels::swiglu_backward(stream,
                             {.dy = d_product_[at],
                              .gate = saved.gate[at],
                              .up = saved.up[at],
                              .dgate = saved.gate[at],
                              .dup = saved.up[at]});
    kernels::product_backward_input(stream,
                                    {.dy = saved.gate[at], .w = part(kGate, i).weight, .dx = leaf});
    kernels::product_backward_input(stream,
                                    {.dy = saved.up[at],
                                     .w = part(kUp, i).weight,
                                     .dx = leaf,
                                     .accumulate = kernels::Accumulate::yes});
  });
  norm_backward(kNormM, kMlpNorm, saved, saved.x_mlp, saved.inv_rms_mlp, d_out, dx);
}

void DecoderLayer::attention_backward_input(Saved& saved, View dx) {
  Stream& stream = context_.stream;
  const View d_mid = d_mid_.slice_rows(context_.stream_rows());
  is_attention_live_ = !is_closed(kO);
  if (!is_attention_live_) {
    kernels::copy(stream, d_mid, dx);
    return;
  }
  context_.sum_over_shards(block_incoming(kAttentionNorm, dh_), {}, [&](dim_t i, View leaf) {
    const auto at = static_cast<std::size_t>(i);
    kernels::product_backward_input(
        stream, {.dy = d_mid_, .w = part(kO, i).weight, .dx = d_attention_[at]});
    kernels::attention_backward(stream,
                                {.q = saved.q[at],
                                 .k = saved.k[at],
                                 .v = saved.v[at],
                                 .out = saved.attention[at],
                                 .lse = saved.lse[at],
                                 .dout = d_attention_[at],
                                 .dq = dq_[at],
                                 .dk = dk_[at],
                                 .dv = dv_[at],
                                 .batch = context_.shape.batch,
                                 .heads = heads_[at],
                                 .kv_heads = kv_heads_[at],
                                 .head_width = spec_.head_width,
                                 .scale = spec_.attention_scale});
    for (const View& turned : {dq_[at], dk_[at]}) {
      kernels::rope(stream,
                    {.x = turned,
                     .cosine = rope_.cosine,
                     .sine = rope_.sine,
                     .batch = context_.shape.batch,
                     .head_width = spec_.head_width},
                    kernels::Turn::backward);
    }
    kernels::product_backward_input(stream, {.dy = dq_[at], .w = part(kQ, i).weight, .dx = leaf});
    const auto more = kernels::Accumulate::yes;
    kernels::product_backward_input(
        stream, {.dy = dk_[at], .w = part(kK, i).weight, .dx = leaf, .accumulate = more});
    kernels::product_backward_input(
        stream, {.dy = dv_[at], .w = part(kV, i).weight, .dx = leaf, .accumulate = more});
  });
  norm_backward(kNormA, kAttentionNorm, saved, saved.x, saved.inv_rms_attention, d_mid, dx);
}

void DecoderLayer::add_weight_gradient(dim_t k, dim_t i, View dy, View x) {
  Part& p = part(k, i);
  kernels::product_backward_weight(
      context_.stream,
      {.dy = dy, .x = x, .dw = bucket_.gradient(0, p), .accumulate = bucket_.touch(0, p)});
}

void DecoderLayer::backward_weight(Saved& saved) {
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    // A closed projection learns from the first step; what stands before it has a zero gradient
    // until then.
    add_weight_gradient(kDown, i, d_out_, saved.product[at]);
    add_weight_gradient(kO, i, d_mid_, saved.attention[at]);
    if (is_mlp_live_) {
      add_weight_gradient(kGate, i, saved.gate[at], saved.h_mlp);
      add_weight_gradient(kUp, i, saved.up[at], saved.h_mlp);
    }
    if (is_attention_live_) {
      add_weight_gradient(kQ, i, dq_[at], saved.h_attention);
      add_weight_gradient(kK, i, dk_[at], saved.h_attention);
      add_weight_gradient(kV, i, dv_[at], saved.h_attention);
    }
  }
  for (int m = 0; m < model::kLayerModules; ++m) {
    auto& blocks = blocks_[static_cast<std::size_t>(m)];
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      blocks[j].backward_weight(saved.blocks[m][j]);
    }
  }
}

}  // namespace cambium::layers
