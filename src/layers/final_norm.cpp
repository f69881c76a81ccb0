// SPDX-License-Identifier: Apache-2.0
#include "layers/final_norm.hpp"

#include "kernels/rms_norm.hpp"
#include "layers/memory_plan.hpp"

namespace cambium::layers {

FinalNorm::FinalNorm(double eps,
                     dim_t width,
                     Bucket& bucket,
                     std::vector<GatedBlock> blocks,
                     TensorContext& context,
                     Arena& activations)
    : eps_(eps),
      width_(width),
      bucket_(bucket),
      blocks_(std::move(blocks)),
      context_(context),
      block_gradients_(blocks_.size()) {
  const DType dtype = context.shape.dtype;
  MemoryPlan plan;
  for (View& v : block_gradients_) {
    plan.add(v, dtype, context.stream_rows().size(), context.shape.hidden);
  }
  gradients_ = plan.allocate(activations);
}

FinalNorm::Saved FinalNorm::make_saved(Arena& activations) const {
  Saved s;
  const dim_t d = context_.shape.hidden;
  const DType dtype = context_.shape.dtype;
  const DType sums = context_.shape.sums();
  MemoryPlan plan;
  plan.add(s.inv_rms, sums, 1, context_.stream_rows().size());
  plan.add(s.h, dtype, context_.rows(), d);
  plan.add(s.dh, dtype, context_.stream_rows().size(), d);
  if (!blocks_.empty()) {
    plan.add(s.normed, dtype, context_.stream_rows().size(), d);
  }
  s.memory = plan.allocate(activations);
  for (const GatedBlock& b : blocks_) {
    s.blocks.push_back(b.make_saved(activations));
  }
  return s;
}

View FinalNorm::forward(View x, Saved& saved, Mode mode) {
  saved.x = x;
  const View own = saved.h.slice_rows(context_.stream_rows());
  View y = blocks_.empty() ? own : saved.normed;
  kernels::rms_norm_forward(context_.stream,
                            {.x = x,
                             .gain = bucket_.part(0, 0).weight.plain,
                             .y = y,
                             .inv_rms = saved.inv_rms,
                             .width = width_,
                             .eps = eps_});
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
  Part& gain = bucket_.part(0, 0);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Range rows = context_.slice_in_stream(context_.shards().begin + i);
    if (rows.size() > 0) {
      kernels::rms_norm_backward_weight(context_.stream,
                                        {.dy = dy.slice_rows(rows),
                                         .x = saved.x.slice_rows(rows),
                                         .inv_rms = saved.inv_rms.slice_cols(rows),
                                         .dgain = bucket_.leaf(0, gain, i)});
    }
  }
  kernels::rms_norm_backward_input(context_.stream,
                                   {.dy = dy,
                                    .x = saved.x,
                                    .gain = gain.weight.plain,
                                    .inv_rms = saved.inv_rms,
                                    .residual = {},
                                    .dx = dx,
                                    .width = width_});
}

void FinalNorm::backward_weight(Saved& saved) {
  for (std::size_t j = 0; j < blocks_.size(); ++j) {
    blocks_[j].backward_weight(saved.blocks[j]);
  }
}

}  // namespace cambium::layers
