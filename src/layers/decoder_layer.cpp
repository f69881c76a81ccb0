// SPDX-License-Identifier: Apache-2.0
#include "layers/decoder_layer.hpp"

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/bias.hpp"
#include "layers/decoder_layer_names.hpp"

namespace cambium::layers {
DecoderLayer::DecoderLayer(const model::LayerSpec& spec,
                           Bucket& bucket,
                           std::vector<std::vector<GatedBlock>> blocks,
                           const RopeTable* rope,
                           TensorContext& context,
                           Recompute recompute)
    : spec_(spec),
      bucket_(bucket),
      blocks_(std::move(blocks)),
      rope_(rope),
      context_(context),
      recompute_(recompute) {
  index_.fill(-1);
  const std::vector<LayerParameter> parameters = model::layer_parameters(spec);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    index_[static_cast<std::size_t>(parameters[k])] = static_cast<dim_t>(k);
  }
  for (dim_t i = 0; i < context.shards().size(); ++i) {
    heads_.push_back(part(kQ, i).rows.size() / spec.head_width);
    kv_heads_.push_back(part(kK, i).rows.size() / spec.head_width);
    o_.push_back(part(kO, i).weight);
    down_.push_back(part(kDown, i).weight);
  }
}

Part& DecoderLayer::part(dim_t k, dim_t i) {
  return bucket_.part(index_[static_cast<std::size_t>(k)], context_.shards().begin + i);
}

bool DecoderLayer::has(dim_t k) const {
  return k != kNone && index_[static_cast<std::size_t>(k)] >= 0;
}

View DecoderLayer::bias_of(dim_t k, dim_t i) {
  return has(k) ? part(k, i).weight.plain : View{};
}

Norm DecoderLayer::norm_of(int module) const {
  const bool is_attention = module == kAttentionNorm;
  const auto index = [&](dim_t k) { return index_[static_cast<std::size_t>(k)]; };
  return {.kind = spec_.norm,
          .eps = spec_.norm_eps,
          .width = spec_.norm_width,
          .bucket = &bucket_,
          .gain = index(is_attention ? kNormA : kNormM),
          .bias = index(is_attention ? kNormABias : kNormMBias)};
}

NormStatistics& DecoderLayer::statistics_of(int module, Saved& saved) {
  return module == kAttentionNorm ? saved.norm_attention : saved.norm_mlp;
}

bool DecoderLayer::is_closed(dim_t projection) const {
  const dim_t k = index_[static_cast<std::size_t>(projection)];
  return spec_.born_closed && bucket_.part(k, context_.shards().begin).updates == 0;
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
void DecoderLayer::norm_forward(View x, View normed, View h, int module, Saved& saved, Mode mode) {
  const View own = h.slice_rows(context_.stream_rows());
  const bool has_blocks = !blocks_[static_cast<std::size_t>(module)].empty();
  const View y = has_blocks ? normed : own;
  layers::norm_forward(context_, norm_of(module), x, y, statistics_of(module, saved));
  if (has_blocks) {
    kernels::copy(context_.stream, run_blocks(module, y, saved, mode), own);
  }
  context_.gather(h);
}

// y = x W^T + bias, where there is one.
void DecoderLayer::project(dim_t k, dim_t bias, dim_t i, View x, View y) {
  kernels::product_forward(
      context_.stream,
      {.x = x, .w = part(k, i).weight, .y = y, .residual = {}, .bias = bias_of(bias, i)});
}

void DecoderLayer::turn(View x, kernels::Turn direction) {
  if (rope_ != nullptr) {
    kernels::rope(context_.stream,
                  {.x = x,
                   .cosine = rope_->cosine,
                   .sine = rope_->sine,
                   .batch = context_.shape.batch,
                   .head_width = spec_.head_width},
                  direction);
  }
}

void DecoderLayer::activate(Saved& saved, std::size_t i) {
  if (has(kGate)) {
    kernels::swiglu_forward(context_.stream,
                            {.gate = saved.gate[i], .up = saved.up[i], .y = saved.product[i]});
  } else {
    kernels::gelu_tanh_forward(context_.stream, {.x = saved.up[i], .y = saved.product[i]});
  }
}

// The gradients of gate and up take their places.
void DecoderLayer::activate_backward(Saved& saved, std::size_t i) {
  if (has(kGate)) {
    kernels::swiglu_backward(context_.stream,
                             {.dy = d_product_[i],
                              .gate = saved.gate[i],
                              .up = saved.up[i],
                              .dgate = saved.gate[i],
                              .dup = saved.up[i]});
  } else {
    kernels::gelu_tanh_backward(context_.stream,
                                {.dy = d_product_[i], .x = saved.up[i], .dx = saved.up[i]});
  }
}

View DecoderLayer::attention_forward(View x, Saved& saved, Mode mode) {
  Stream& stream = context_.stream;
  norm_forward(x, saved.normed_attention, saved.h_attention, kAttentionNorm, saved, mode);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const View h = saved.h_attention;
    project(kQ, kQBias, i, h, saved.q[at]);
    project(kK, kKBias, i, h, saved.k[at]);
    project(kV, kVBias, i, h, saved.v[at]);
    turn(saved.q[at], kernels::Turn::forward);
    turn(saved.k[at], kernels::Turn::forward);
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
  context_.row_parallel(saved.attention, o_, bias_of(kOBias, 0), x, saved.mid);
  return saved.mid;
}

// Up to the activation; mlp_output is the rest.
void DecoderLayer::mlp_forward(View x, Saved& saved, Mode mode) {
  saved.x_mlp = x;
  norm_forward(x, saved.normed_mlp, saved.h_mlp, kMlpNorm, saved, mode);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (has(kGate)) {
      project(kGate, kNone, i, saved.h_mlp, saved.gate[at]);
    }
    project(kUp, kUpBias, i, saved.h_mlp, saved.up[at]);
    activate(saved, at);
  }
}

View DecoderLayer::mlp_output(View x, Saved& saved) {
  if (is_closed(kDown)) {
    return x;
  }
  context_.row_parallel(saved.product, down_, bias_of(kDownBias, 0), x, saved.out);
  return saved.out;
}

View DecoderLayer::forward(View x, Saved& saved, Mode mode) {
  saved.x = x;
  const bool is_absent = mode == Mode::forward_only;
  View y = is_absent && is_closed(kO) ? x : attention_forward(x, saved, mode);
  y = run_blocks(kAttention, y, saved, mode);
  if (!is_absent || !is_closed(kDown)) {
    mlp_forward(y, saved, mode);
    y = mlp_output(y, saved);
  }
  return keep_output(run_blocks(kMlp, y, saved, mode), saved);
}

// With full recomputation the output must outlive the shared memory in which it may stand: a closed
// projection or a block leaves it elsewhere than in the memory that is kept.
View DecoderLayer::keep_output(View y, Saved& saved) {
  if (recompute_ != Recompute::full || y.data == saved.x.data) {
    return y;
  }
  const View kept = saved.kept.empty() ? saved.out : saved.kept;
  if (y.data != kept.data) {
    kernels::copy(context_.stream, y, kept);
  }
  return kept;
}

void DecoderLayer::recompute(Saved& saved) {
  if (recompute_ == Recompute::selective) {
    recompute_cheap(saved);
  } else if (recompute_ == Recompute::full) {
    View y = attention_forward(saved.x, saved, Mode::train);
    y = run_blocks(kAttention, y, saved, Mode::train);
    mlp_forward(y, saved, Mode::train);
    if (!blocks_[kMlp].empty()) {  // else nobody reads the output again
      (void)run_blocks(kMlp, mlp_output(y, saved), saved, Mode::train);
    }
  }
}

void DecoderLayer::recompute_cheap(Saved& saved) {
  const auto norm = [&](View x, View h, int module) {
    if (blocks_[static_cast<std::size_t>(module)].empty()) {
      norm_forward(x, {}, h, module, saved, Mode::train);
    }
  };
  if (!is_closed(kO)) {
    norm(saved.x, saved.h_attention, kAttentionNorm);
  }
  if (!is_closed(kDown)) {
    norm(saved.x_mlp, saved.h_mlp, kMlpNorm);
  }
  for (std::size_t i = 0; i < saved.product.size(); ++i) {
    activate(saved, i);
  }
  for (int m = 0; m < model::kLayerModules; ++m) {
    auto& blocks = blocks_[static_cast<std::size_t>(m)];
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      blocks[j].recompute(saved.blocks[m][j]);
    }
  }
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
void DecoderLayer::norm_backward(int module, Saved& saved, View x, View residual, View dx) {
  run_blocks_backward(module, saved, dh_);
  layers::norm_backward(
      context_, norm_of(module), dh_, x, statistics_of(module, saved), residual, dx);
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
    activate_backward(saved, at);
    if (has(kGate)) {
      kernels::product_backward_input(
          stream, {.dy = saved.gate[at], .w = part(kGate, i).weight, .dx = leaf});
    }
    kernels::product_backward_input(
        stream,
        {.dy = saved.up[at],
         .w = part(kUp, i).weight,
         .dx = leaf,
         .accumulate = has(kGate) ? kernels::Accumulate::yes : kernels::Accumulate::no});
  });
  norm_backward(kMlpNorm, saved, saved.x_mlp, d_out, dx);
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
    turn(dq_[at], kernels::Turn::backward);
    turn(dk_[at], kernels::Turn::backward);
    kernels::product_backward_input(stream, {.dy = dq_[at], .w = part(kQ, i).weight, .dx = leaf});
    const auto more = kernels::Accumulate::yes;
    kernels::product_backward_input(
        stream, {.dy = dk_[at], .w = part(kK, i).weight, .dx = leaf, .accumulate = more});
    kernels::product_backward_input(
        stream, {.dy = dv_[at], .w = part(kV, i).weight, .dx = leaf, .accumulate = more});
  });
  norm_backward(kAttentionNorm, saved, saved.x, d_mid, dx);
}

void DecoderLayer::add_weight_gradient(dim_t k, dim_t i, View dy, View x) {
  Part& p = part(k, i);
  kernels::product_backward_weight(
      context_.stream,
      {.dy = dy, .x = x, .dw = bucket_.gradient(0, p), .accumulate = bucket_.touch(0, p)});
}

// Of a bias that is cut with its product: over all rows, like the product's weight.
void DecoderLayer::add_cut_bias_gradient(dim_t k, dim_t i, View dy) {
  if (!has(k)) {
    return;
  }
  Part& p = part(k, i);
  const View gradient = bucket_.gradient(0, p);
  if (bucket_.touch(0, p) == kernels::Accumulate::no) {
    kernels::fill_zero(context_.stream, gradient);
  }
  kernels::bias_backward(context_.stream, {.dy = dy, .dbias = gradient});
}

// Of a bias behind a sum over shards: a token sum, over shard i's slice of all rows `dy`.
void DecoderLayer::add_whole_bias_gradient(dim_t k, dim_t i, View dy) {
  if (!has(k)) {
    return;
  }
  const Range rows = context_.slice_rows(context_.shards().begin + i);
  kernels::bias_backward(context_.stream,
                         {.dy = dy.slice_rows(rows), .dbias = bucket_.leaf(0, part(k, 0), i)});
}

void DecoderLayer::backward_weight(Saved& saved) {
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    // A closed projection learns from the first step; what stands before it has a zero gradient
    // until then.
    add_weight_gradient(kDown, i, d_out_, saved.product[at]);
    add_whole_bias_gradient(kDownBias, i, d_out_);
    add_weight_gradient(kO, i, d_mid_, saved.attention[at]);
    add_whole_bias_gradient(kOBias, i, d_mid_);
    if (is_mlp_live_) {
      if (has(kGate)) {
        add_weight_gradient(kGate, i, saved.gate[at], saved.h_mlp);
      }
      add_weight_gradient(kUp, i, saved.up[at], saved.h_mlp);
      add_cut_bias_gradient(kUpBias, i, saved.up[at]);
    }
    if (is_attention_live_) {
      add_weight_gradient(kQ, i, dq_[at], saved.h_attention);
      add_cut_bias_gradient(kQBias, i, dq_[at]);
      add_weight_gradient(kK, i, dk_[at], saved.h_attention);
      add_cut_bias_gradient(kKBias, i, dk_[at]);
      add_weight_gradient(kV, i, dv_[at], saved.h_attention);
      add_cut_bias_gradient(kVBias, i, dv_[at]);
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
