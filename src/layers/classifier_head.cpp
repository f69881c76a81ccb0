// SPDX-License-Identifier: Apache-2.0
#include "layers/classifier_head.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cross_entropy.hpp"
#include "layers/memory_plan.hpp"

namespace cambium::layers {
namespace {

double element(View v, dim_t i) {
  return v.dtype == DType::f64 ? v.as<double>()[i] : static_cast<double>(v.as<float>()[i]);
}

void set_element(View v, dim_t i, double value) {
  if (v.dtype == DType::f64) {
    v.as<double>()[i] = value;
  } else {
    v.as<float>()[i] = static_cast<float>(value);
  }
}

}  // namespace

ClassifierHead::ClassifierHead(Bucket& bucket, TensorContext& context, Arena& activations)
    : bucket_(bucket), context_(context) {
  const dim_t b = context.shape.batch;
  const dim_t d = context.shape.hidden;
  const dim_t shards = context.shape.logical_tensor;
  const model::ParameterSpec& table = bucket.part(0, context.shards().begin).spec;
  const DType dtype = context.shape.dtype;
  const DType sums = context.shape.sums();
  MemoryPlan plan;
  plan.add(all_logits_, sums, 1, b * table.rows);
  plan.add(selected_, dtype, b, d);
  plan.add(statistics_, sums, 3 * shards, b);
  plan.add(maximum_, sums, 1, b);
  plan.add(sum_, sums, 1, b);
  plan.add(loss_, sums, 1, b);
  plan.add(weight_, sums, 1, b);
  plan.add(dh_selected_, sums, b, d);
  gradients_.resize(static_cast<std::size_t>(context.shards().size()));
  dh_leaves_.resize(gradients_.size());
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    plan.add(gradients_[i], dtype, b, part(static_cast<dim_t>(i)).rows.size());
    plan.add(dh_leaves_[i], sums, b, d);
  }
  memory_ = plan.allocate(activations);
  targets_memory_ = activations.allocate(DType::i32, b);
  targets_ = targets_memory_.view(DType::i32, 1, b);
  dim_t at = 0;
  gather_bytes_.assign(static_cast<std::size_t>(context.group.size()), 0);
  for (dim_t s = 0; s < shards; ++s) {
    const dim_t classes = shard_of(table, shards, s).rows.size();
    View v = all_logits_.slice_cols({at, at + b * classes});
    v.rows = b;
    v.cols = v.stride = classes;
    blocks_.push_back(v);
    at += b * classes;
    for (int r = 0; r < context.group.size(); ++r) {
      if (share(shards, context.group.size(), r).contains(s)) {
        gather_bytes_[static_cast<std::size_t>(r)] +=
            static_cast<std::size_t>(b * classes) * device::bytes_of(context.shape.sums());
      }
    }
  }
}

Part& ClassifierHead::part(dim_t i) {
  return bucket_.part(0, context_.shards().begin + i);
}

ClassifierHead::Scores ClassifierHead::score(View h, const std::vector<dim_t>& rows) {
  Stream& stream = context_.stream;
  rows_ = rows;
  for (dim_t b = 0; b < context_.shape.batch; ++b) {
    const dim_t r = rows[static_cast<std::size_t>(b)];
    kernels::copy(stream, h.slice_rows({r, r + 1}), selected_.slice_rows({b, b + 1}));
  }
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    kernels::product_forward(stream,
                             {.x = selected_,
                              .w = part(i).weight,
                              .y = blocks_[static_cast<std::size_t>(context_.shards().begin + i)],
                              .residual = {}});
  }
  if (context_.group.size() > 1) {
    context_.group.all_gather(blocks_[static_cast<std::size_t>(context_.shards().begin)].data,
                              gather_bytes_,
                              all_logits_.data);
  }
  Scores scores;
  std::fill_n(targets_.as<std::int32_t>(), context_.shape.batch, kernels::kIgnore);
  (void)losses({});
  for (dim_t b = 0; b < context_.shape.batch; ++b) {
    double best = -std::numeric_limits<double>::infinity();
    std::int32_t label = 0;
    std::int32_t first = 0;
    for (const View& block : blocks_) {
      for (dim_t c = 0; c < block.cols; ++c) {
        const double value = element(block, b * block.stride + c);
        if (value > best) {
          best = value;
          label = first + static_cast<std::int32_t>(c);
        }
      }
      first += static_cast<std::int32_t>(block.cols);
    }
    scores.predicted.push_back(label);
    const double rest = std::max(element(sum_, b) - 1, std::numeric_limits<double>::min());
    scores.confidence_logit.push_back(-std::log(rest));
  }
  return scores;
}

std::vector<double> ClassifierHead::losses(const std::vector<std::int32_t>& targets) {
  Stream& stream = context_.stream;
  std::copy(targets.begin(), targets.end(), targets_.as<std::int32_t>());
  dim_t first = 0;
  for (dim_t s = 0; s < context_.shape.logical_tensor; ++s) {
    const View block = blocks_[static_cast<std::size_t>(s)];
    kernels::cross_entropy_statistics(stream,
                                      {.logits = block,
                                       .targets = targets_,
                                       .first_row = first,
                                       .statistics = statistics_.slice_rows({3 * s, 3 * s + 3})});
    first += block.cols;
  }
  kernels::cross_entropy_combine(stream,
                                 {.statistics = statistics_,
                                  .shards = context_.shape.logical_tensor,
                                  .maximum = maximum_,
                                  .sum = sum_,
                                  .loss = loss_,
                                  .targets = targets_});
  std::vector<double> out;
  for (dim_t b = 0; b < context_.shape.batch; ++b) {
    out.push_back(element(loss_, b));
  }
  return out;
}

View ClassifierHead::logits_gradient(dim_t i,
                                     const std::vector<std::int32_t>& targets,
                                     const std::vector<double>& weight,
                                     double scale) {
  Stream& stream = context_.stream;
  std::copy(targets.begin(), targets.end(), targets_.as<std::int32_t>());
  for (std::size_t b = 0; b < weight.size(); ++b) {
    set_element(weight_, static_cast<dim_t>(b), weight[b]);
  }
  const View out = gradients_[static_cast<std::size_t>(i)];
  kernels::cross_entropy_gradient(
      stream,
      {.logits = blocks_[static_cast<std::size_t>(context_.shards().begin + i)],
       .targets = targets_,
       .maximum = maximum_,
       .sum = sum_,
       .weight = weight.empty() ? View{} : weight_,
       .first_row = part(i).rows.begin,
       .scale = scale,
       .gradient = out});
  return out;
}

void ClassifierHead::add_head_gradient(View dlogits, View gradient) {
  kernels::product_backward_weight(
      context_.stream,
      {.dy = dlogits, .x = selected_, .dw = gradient, .accumulate = kernels::Accumulate::yes});
}

void ClassifierHead::backward(const std::vector<View>& dlogits, View dh) {
  Stream& stream = context_.stream;
  comm::ShardSum& sum = context_.shard_sum();
  std::vector<View> nodes;
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Part& p = part(i);
    kernels::product_backward_input(
        stream,
        {.dy = dlogits[at],
         .w = p.weight,
         .dx = dh_leaves_[static_cast<std::size_t>(sum.local.leaf_buffer[at])]});
    for (const AddStep& step : sum.local.after[at]) {
      kernels::add_into(stream,
                        dh_leaves_[static_cast<std::size_t>(step.to)],
                        dh_leaves_[static_cast<std::size_t>(step.from)]);
    }
    kernels::product_backward_weight(stream,
                                     {.dy = dlogits[at],
                                      .x = selected_,
                                      .dw = bucket_.gradient(0, p),
                                      .accumulate = bucket_.touch(0, p)});
  }
  const auto flat = [](View v) {
    v.cols = v.rows * v.cols;
    v.rows = 1;
    v.stride = v.cols;
    return v;
  };
  for (const dim_t b : sum.local.node_buffer) {
    nodes.push_back(flat(dh_leaves_[static_cast<std::size_t>(b)]));
  }
  comm::tree_all_reduce(
      context_.group, stream, sum, nodes, flat(dh_selected_), workspace_, context_.shape.reduction);
  kernels::fill_zero(stream, dh);
  const Range own = context_.stream_rows();
  for (dim_t b = 0; b < context_.shape.batch; ++b) {
    const dim_t r = rows_[static_cast<std::size_t>(b)];
    if (own.contains(r)) {
      kernels::copy(stream,
                    dh_selected_.slice_rows({b, b + 1}),
                    dh.slice_rows({r - own.begin, r - own.begin + 1}));
    }
  }
}

}  // namespace cambium::layers
