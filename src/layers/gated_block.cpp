// SPDX-License-Identifier: Apache-2.0
#include "layers/gated_block.hpp"

#include "kernels/activation.hpp"
#include "kernels/rms_norm.hpp"

namespace cambium::layers {
namespace {

enum : dim_t { kNorm = 0, kA = 1, kB = 2, kGate = 3 };

}  // namespace

GatedBlock::GatedBlock(const model::InsertedBlock& spec, Bucket& bucket, TensorContext& context)
    : spec_(spec), bucket_(bucket), context_(context) {
  for (dim_t i = 0; i < context.shards().size(); ++i) {
    b_.push_back(part(kB, i).weight);
  }
}

void GatedBlock::plan_gradients(MemoryPlan& plan) {
  const dim_t d = context_.shape.hidden;
  const DType dtype = context_.shape.dtype;
  dz_.resize(static_cast<std::size_t>(context_.shards().size()));
  plan.add(dr_full_, dtype, context_.rows(), d);
  plan.add(dh_, dtype, context_.stream_rows().size(), d);
  plan.add(gate_row_, context_.shape.sums(), 1, d);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    plan.add(dz_[static_cast<std::size_t>(i)], dtype, context_.rows(), part(kA, i).rows.size());
  }
}

void GatedBlock::plan_saved(Saved& saved, MemoryPlan& plan, MemoryPlan& cheap) {
  const auto n = static_cast<std::size_t>(context_.shards().size());
  const dim_t d = context_.shape.hidden;
  const DType dtype = context_.shape.dtype;
  saved.z.resize(n);
  saved.s.resize(n);
  plan.add(saved.inv_rms, context_.shape.sums(), 1, context_.stream_rows().size());
  cheap.add(saved.h, dtype, context_.rows(), d);
  for (std::size_t i = 0; i < n; ++i) {
    const dim_t width = part(kA, static_cast<dim_t>(i)).rows.size();
    plan.add(saved.z[i], dtype, context_.rows(), width);
    cheap.add(saved.s[i], dtype, context_.rows(), width);
  }
  plan.add(saved.r, dtype, context_.stream_rows().size(), d);
  plan.add(saved.y, dtype, context_.stream_rows().size(), d);
}

Part& GatedBlock::part(dim_t k, dim_t i) {
  return bucket_.part(k, context_.shards().begin + i);
}

bool GatedBlock::is_closed() const {
  return spec_.born_closed && bucket_.part(kGate, 0).updates == 0;
}

View GatedBlock::forward(View x, Saved& saved, Mode mode) {
  if (is_closed() && mode == Mode::forward_only) {
    return x;
  }
  Stream& stream = context_.stream;
  saved.x = x;
  norm_forward(saved);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    kernels::product_forward(
        stream, {.x = saved.h, .w = part(kA, i).weight, .y = saved.z[at], .residual = {}});
    kernels::silu_forward(stream, {.x = saved.z[at], .y = saved.s[at]});
  }
  context_.row_parallel(saved.s, b_, {}, {}, saved.r);
  if (is_closed()) {
    return x;
  }
  kernels::gated_residual_forward(stream,
                                  {.x = x, .r = saved.r, .gate = spread_gate(), .y = saved.y});
  return saved.y;
}

void GatedBlock::norm_forward(Saved& saved) {
  kernels::rms_norm_forward(context_.stream,
                            {.x = saved.x,
                             .gain = part(kNorm, 0).weight.plain,
                             .y = saved.h.slice_rows(context_.stream_rows()),
                             .inv_rms = saved.inv_rms,
                             .width = spec_.norm_width,
                             .eps = spec_.norm_eps});
  context_.gather(saved.h);
}

void GatedBlock::recompute(Saved& saved) {
  if (is_closed()) {  // its backward reads r only
    return;
  }
  norm_forward(saved);
  for (std::size_t i = 0; i < saved.z.size(); ++i) {
    kernels::silu_forward(context_.stream, {.x = saved.z[i], .y = saved.s[i]});
  }
}

// A gate for each feature. Spread at each use, because gate_row_ may be shared memory.
View GatedBlock::spread_gate() {
  const View gate = part(kGate, 0).weight.plain;
  if (gate.cols > 1) {
    return gate;
  }
  spread_scalar(gate, gate_row_);
  return gate_row_;
}

void GatedBlock::fold_gate_gradient(View dy, const Saved& saved) {
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Range rows = context_.slice_in_stream(context_.shards().begin + i);
    if (rows.size() > 0) {
      kernels::gated_residual_backward_weight(context_.stream,
                                              {.dy = dy.slice_rows(rows),
                                               .r = saved.r.slice_rows(rows),
                                               .dgate = bucket_.leaf(0, part(kGate, 0), i)});
    }
  }
}

void GatedBlock::backward_input(View dy, Saved& saved, View dx) {
  Stream& stream = context_.stream;
  fold_gate_gradient(dy, saved);
  is_branch_live_ = !is_closed();
  if (!is_branch_live_) {  // the branch has no part in the function yet: its gradients are zeros,
                           // dx is dy
    kernels::copy(stream, dy, dx);
    return;
  }
  kernels::gated_residual_backward_input(
      stream, {.dy = dy, .gate = spread_gate(), .dr = dr_full_.slice_rows(context_.stream_rows())});
  context_.gather(dr_full_);
  context_.sum_over_shards(dh_, {}, [&](dim_t i, View leaf) {
    const auto at = static_cast<std::size_t>(i);
    kernels::product_backward_input(stream,
                                    {.dy = dr_full_, .w = part(kB, i).weight, .dx = dz_[at]});
    kernels::silu_backward(stream, {.dy = dz_[at], .x = saved.z[at], .dx = dz_[at]});
    kernels::product_backward_input(stream, {.dy = dz_[at], .w = part(kA, i).weight, .dx = leaf});
  });
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const Range rows = context_.slice_in_stream(context_.shards().begin + i);
    if (rows.size() > 0) {
      kernels::rms_norm_backward_weight(stream,
                                        {.dy = dh_.slice_rows(rows),
                                         .x = saved.x.slice_rows(rows),
                                         .inv_rms = saved.inv_rms.slice_cols(rows),
                                         .dgain = bucket_.leaf(0, part(kNorm, 0), i)});
    }
  }
  kernels::rms_norm_backward_input(stream,
                                   {.dy = dh_,
                                    .x = saved.x,
                                    .gain = part(kNorm, 0).weight.plain,
                                    .inv_rms = saved.inv_rms,
                                    .residual = dy,
                                    .dx = dx,
                                    .width = spec_.norm_width});
}

void GatedBlock::backward_weight(Saved& saved) {
  if (!is_branch_live_) {
    return;
  }
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Part& a = part(kA, i);
    Part& b = part(kB, i);
    kernels::product_backward_weight(context_.stream,
                                     {.dy = dr_full_,
                                      .x = saved.s[at],
                                      .dw = bucket_.gradient(0, b),
                                      .accumulate = bucket_.touch(0, b)});
    kernels::product_backward_weight(context_.stream,
                                     {.dy = dz_[at],
                                      .x = saved.h,
                                      .dw = bucket_.gradient(0, a),
                                      .accumulate = bucket_.touch(0, a)});
  }
}

}  // namespace cambium::layers
