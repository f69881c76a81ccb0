// SPDX-License-Identifier: Apache-2.0
#include "layers/language_model_head.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/tree.hpp"
#include "kernels/cross_entropy.hpp"
#include "layers/memory_plan.hpp"

namespace cambium::layers {

LanguageModelHead::LanguageModelHead(
    Bucket& table, int lane, TensorContext& context, Arena& activations, Arena& communication)
    : table_(table), lane_(lane), context_(context) {
  const auto n = static_cast<std::size_t>(context.shards().size());
  const dim_t chunk = std::min(kHeadChunk, context.rows());
  logits_.resize(n);
  dh_leaves_.resize(n);
  const DType sums = context.shape.sums();
  MemoryPlan plan;
  dim_t widest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const dim_t width = table.part(0, context.shards().begin + static_cast<dim_t>(i)).rows.size();
    widest = std::max(widest, width);
    plan.add(logits_[i], sums, chunk, width);
    plan.add(dh_leaves_[i], sums, context.rows(), context.shape.hidden);
  }
  if (context.shape.dtype != sums) {
    plan.add(narrow_, context.shape.dtype, 1, chunk * widest);
  }
  plan.add(maximum_, sums, 1, chunk);
  plan.add(sum_, sums, 1, chunk);
  plan.add(losses_, sums, 1, context.rows());
  memory_ = plan.allocate(activations);
  MemoryPlan exchange;
  exchange.add(statistics_, sums, 3 * context.shape.logical_tensor, chunk);
  exchange_ = exchange.allocate(communication);
  gather_bytes_.resize(static_cast<std::size_t>(context.group.size()));
}

// Every shard would take a label of no shard for another's, and give it a gradient.
void LanguageModelHead::check_labels(View targets) const {
  const dim_t classes = table_.part(0, context_.shards().begin).spec.rows;
  const auto* labels = targets.as<std::int32_t>();
  for (dim_t row = 0; row < targets.cols; ++row) {
    if (labels[row] != kernels::kIgnore && (labels[row] < 0 || labels[row] >= classes)) {
      throw Error(Code::bad_input,
                  fmt::format("label {} of sample {} of the micro-batch, position {}: outside the "
                              "vocabulary of {} (only {} is ignored)",
                              labels[row],
                              row % context_.shape.batch,
                              row / context_.shape.batch,
                              classes,
                              kernels::kIgnore));
    }
  }
}

double LanguageModelHead::forward(
    View h, View targets, double scale, Mode mode, View dh, const LogitsProbe& probe) {
  check_labels(targets);
  const WorkScope scope(context_.stream.profile(), Work::head);
  for (dim_t begin = 0; begin < context_.rows(); begin += kHeadChunk) {
    const Range rows{begin, std::min(begin + kHeadChunk, context_.rows())};
    chunk_forward(rows, h, targets);
    if (probe) {
      for (dim_t i = 0; i < context_.shards().size(); ++i) {
        probe(rows, i, logits_[static_cast<std::size_t>(i)].slice_rows({0, rows.size()}));
      }
    }
    if (mode == Mode::train) {
      chunk_backward(rows, h, targets, scale);
    }
  }
  if (mode == Mode::train) {
    context_.sum_over_shards(dh, {}, [&](dim_t i, View leaf) {
      kernels::copy(context_.stream, dh_leaves_[static_cast<std::size_t>(i)], leaf);
    });
  }
  return sum_losses();
}

void LanguageModelHead::chunk_forward(Range rows, View h, View targets) {
  Stream& stream = context_.stream;
  const View x = h.slice_rows(rows);
  const View t = targets.slice_cols(rows);
  const dim_t count = rows.size();
  // The chunk's statistics stand densely, (3*shards, count), so that the tensor ranks' parts join
  // into one matrix.
  View all = statistics_;
  all.cols = count;
  all.stride = count;
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const dim_t shard = context_.shards().begin + i;
    const Part& p = table_.part(0, shard);
    const View logits = logits_[at].slice_rows({0, count});
    kernels::product_forward(stream, {.x = x, .w = p.weight, .y = logits, .residual = {}});
    kernels::cross_entropy_statistics(stream,
                                      {.logits = logits,
                                       .targets = t,
                                       .first_row = p.rows.begin,
                                       .statistics = all.slice_rows({3 * shard, 3 * shard + 3})});
  }
  const dim_t element = static_cast<dim_t>(device::bytes_of(context_.shape.sums()));
  for (int r = 0; r < context_.group.size(); ++r) {
    const Range held = share(context_.shape.logical_tensor, context_.group.size(), r);
    gather_bytes_[static_cast<std::size_t>(r)] =
        static_cast<std::size_t>(3 * held.size() * count * element);
  }
  if (context_.group.size() > 1) {
    const WorkScope scope(stream.profile(), Work::tensor_exchange);
    context_.group.all_gather(
        all.slice_rows({3 * context_.shards().begin, 0}).data, gather_bytes_, all.data);
  }
  kernels::cross_entropy_combine(stream,
                                 {.statistics = all,
                                  .shards = context_.shape.logical_tensor,
                                  .maximum = maximum_.slice_cols({0, count}),
                                  .sum = sum_.slice_cols({0, count}),
                                  .loss = losses_.slice_cols(rows),
                                  .targets = t});
}

void LanguageModelHead::chunk_backward(Range rows, View h, View targets, double scale) {
  Stream& stream = context_.stream;
  const View x = h.slice_rows(rows);
  for (dim_t i = 0; i < context_.shards().size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Part& p = table_.part(0, context_.shards().begin + i);
    const View logits = logits_[at].slice_rows({0, rows.size()});
    const View gradient =
        narrow_.data == nullptr
            ? logits
            : View{narrow_.data, rows.size(), logits.cols, logits.cols, narrow_.dtype};
    kernels::cross_entropy_gradient(stream,
                                    {.logits = logits,
                                     .targets = targets.slice_cols(rows),
                                     .maximum = maximum_.slice_cols({0, rows.size()}),
                                     .sum = sum_.slice_cols({0, rows.size()}),
                                     .weight = {},
                                     .first_row = p.rows.begin,
                                     .scale = scale,
                                     .gradient = gradient});
    kernels::product_backward_input(
        stream, {.dy = gradient, .w = p.weight, .dx = dh_leaves_[at].slice_rows(rows)});
    kernels::product_backward_weight(stream,
                                     {.dy = gradient,
                                      .x = x,
                                      .dw = table_.gradient(lane_, p),
                                      .accumulate = table_.touch(lane_, p)});
  }
}

double LanguageModelHead::sum_losses() {
  slices_.clear();
  for (dim_t s = 0; s < context_.shape.logical_tensor; ++s) {
    const Range rows = context_.slice_rows(s);
    double sum = 0;
    for (dim_t r = rows.begin; r < rows.end; ++r) {
      sum += losses_.dtype == DType::f64 ? losses_.as<double>()[r]
                                         : static_cast<double>(losses_.as<float>()[r]);
    }
    slices_.push_back(sum);
  }
  return tree_sum_in_place(std::span(slices_));
}

}  // namespace cambium::layers
