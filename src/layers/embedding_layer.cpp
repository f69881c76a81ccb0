// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding_layer.hpp"

#include <span>

#include "kernels/embedding.hpp"
#include "layers/memory_plan.hpp"

namespace cambium::layers {

EmbeddingLayer::EmbeddingLayer(Bucket& bucket,
                               Bucket* positions,
                               std::vector<GatedBlock> blocks,
                               TensorContext& context,
                               Arena& activations)
    : bucket_(bucket),
      positions_(positions),
      blocks_(std::move(blocks)),
      context_(context),
      block_gradients_(blocks_.size()) {
  const DType dtype = context.shape.dtype;
  MemoryPlan plan;
  plan.add(d_full_, dtype, context.rows(), context.shape.hidden);
  for (View& v : block_gradients_) {
    plan.add(v, dtype, context.stream_rows().size(), context.shape.hidden);
  }
  for (GatedBlock& b : blocks_) {
    b.plan_gradients(plan);
  }
  gradients_ = plan.allocate(activations);
}

EmbeddingLayer::Saved EmbeddingLayer::make_saved(Arena& activations) {
  Saved s;
  const DType dtype = context_.shape.dtype;
  MemoryPlan plan;
  plan.add(s.full, dtype, context_.rows(), context_.shape.hidden);
  s.blocks.resize(blocks_.size());
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    blocks_[j].plan_saved(s.blocks[j], plan, plan);
  }
  s.memory = plan.allocate(activations);
  return s;
}

View EmbeddingLayer::forward(View ids, Saved& saved, Mode mode) {
  const bool is_cut = context_.group.size() > 1;
  if (is_cut) {  // rows that other ranks hold stay zero, so that "or" brings their bits in
                 // unchanged
    kernels::fill_zero(context_.stream, saved.full);
  }
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Part& p = bucket_.part(0, context_.shards().begin + i);
    kernels::embedding_forward(
        context_.stream,
        {.table = p.weight.plain, .ids = ids, .out = saved.full, .first_row = p.rows.begin});
  }
  if (is_cut) {
    const WorkScope scope(context_.stream.profile(), Work::tensor_exchange);
    // An odd number of 16-bit elements ends in half a word; the other half is padding, zero.
    const dim_t words =
        ceil_div(saved.full.size() * static_cast<dim_t>(device::bytes_of(context_.shape.dtype)),
                 static_cast<dim_t>(sizeof(std::uint32_t)));
    context_.group.all_reduce_or(
        {static_cast<std::uint32_t*>(saved.full.data), static_cast<std::size_t>(words)});
  }
  View x = saved.full.slice_rows(context_.stream_rows());
  add_positions(x);
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    x = blocks_[j].forward(x, saved.blocks[j], mode);
  }
  return x;
}

void EmbeddingLayer::add_positions(View x) {
  if (positions_ != nullptr) {
    kernels::positions_forward(context_.stream,
                               {.table = positions_->part(0, 0).weight.plain,
                                .x = x,
                                .first_row = context_.stream_rows().begin,
                                .batch = context_.shape.batch});
  }
}

void EmbeddingLayer::add_position_gradient() {
  Part& table = positions_->part(0, 0);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Range rows = context_.slice_rows(context_.shards().begin + i);
    const View leaf = positions_->leaf(0, table, i);
    kernels::positions_backward(
        context_.stream,
        {.dy = d_full_.slice_rows(rows),
         .dtable = {leaf.data, table.spec.rows, table.spec.cols, table.spec.cols, leaf.dtype},
         .first_row = rows.begin,
         .batch = context_.shape.batch});
  }
}

View EmbeddingLayer::incoming() const {
  return block_gradients_.empty() ? d_full_.slice_rows(context_.stream_rows())
                                  : block_gradients_.back();
}

void EmbeddingLayer::backward_input(Saved& saved) {
  for (std::size_t j = blocks_.size(); j-- > 0;) {
    blocks_[j].backward_input(
        block_gradients_[j],
        saved.blocks[j],
        j > 0 ? block_gradients_[j - 1] : d_full_.slice_rows(context_.stream_rows()));
  }
  context_.gather(d_full_);
}

void EmbeddingLayer::backward_weight(View ids, Saved& saved) {
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    Part& p = bucket_.part(0, context_.shards().begin + i);
    const View gradient = bucket_.gradient(0, p);
    if (bucket_.touch(0, p) == kernels::Accumulate::no) {
      kernels::fill_zero(context_.stream, gradient);
    }
    kernels::embedding_backward(
        context_.stream,
        {.ids = ids, .dy = d_full_, .dtable = gradient, .first_row = p.rows.begin});
  }
  if (positions_ != nullptr) {
    add_position_gradient();
  }
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    blocks_[j].backward_weight(saved.blocks[j]);
  }
}

}  // namespace cambium::layers
