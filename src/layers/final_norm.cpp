// SPDX-License-Identifier: Apache-2.0
#include "layers/final_norm.hpp"

#include "layers/memory_plan.hpp"

namespace cambium::layers {

FinalNorm::FinalNorm(const Norm& norm,
                     std::vector<GatedBlock> blocks,
                     TensorContext& context,
                     Arena& activations)
    : norm_(norm), blocks_(std::move(blocks)), context_(context), block_gradients_(blocks_.size()) {
  const DType dtype = context.shape.dtype;
  MemoryPlan plan;
  for (View& v : block_gradients_) {
    plan.add(v, dtype, context.stream_rows().size(), context.shape.hidden);
  }
  for (GatedBlock& b : blocks_) {
    b.plan_gradients(plan);
  }
  gradients_ = plan.allocate(activations);
}

FinalNorm::Saved FinalNorm::make_saved(Arena& activations) {
  Saved s;
  const dim_t d = context_.shape.hidden;
  const DType dtype = context_.shape.dtype;
  const DType sums = context_.shape.sums();
  MemoryPlan plan;
  plan.add(s.kept.inv, sums, 1, context_.stream_rows().size());
  if (norm_.kind == model::NormKind::layer) {
    plan.add(s.kept.mean, sums, 1, context_.stream_rows().size());
  }
  plan.add(s.h, dtype, context_.rows(), d);
  plan.add(s.dh, dtype, context_.stream_rows().size(), d);
  if (!blocks_.empty()) {
    plan.add(s.normed, dtype, context_.stream_rows().size(), d);
  }
  s.blocks.resize(blocks_.size());
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    blocks_[j].plan_saved(s.blocks[j], plan, plan);
  }
  s.memory = plan.allocate(activations);
  return s;
}

View FinalNorm::forward(View x, Saved& saved, Mode mode) {
  saved.x = x;
  const View own = saved.h.slice_rows(context_.stream_rows());
  View y = blocks_.empty() ? own : saved.normed;
  norm_forward(context_, norm_, x, y, saved.kept);
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    y = blocks_[j].forward(y, saved.blocks[j], mode);
  }
  if (y.data != own.data) {
    kernels::copy(context_.stream, y, own);
  }
  context_.gather(saved.h);
  return saved.h;
}

void FinalNorm::backward_input(Saved& saved, View dx) {
  View dy = saved.dh;
  for (std::size_t j = blocks_.size(); j-- > 0;) {
    blocks_[j].backward_input(dy, saved.blocks[j], block_gradients_[j]);
    dy = block_gradients_[j];
  }
  norm_backward(context_, norm_, dy, saved.x, saved.kept, {}, dx);
}

void FinalNorm::backward_weight(Saved& saved) {
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    blocks_[j].backward_weight(saved.blocks[j]);
  }
}

}  // namespace cambium::layers
