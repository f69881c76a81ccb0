// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include <algorithm>

#include "kernels/adamw.hpp"
#include "optimizer/learning_rate.hpp"

namespace cambium::optimizer {
namespace {

using device::View;
using device::Work;
using device::WorkScope;
using params::Bucket;
using params::Part;

Range overlap(Range a, Range b) {
  const Range r{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return r.size() > 0 ? r : Range{a.begin, a.begin};
}

}  // namespace

Optimizer::Optimizer(params::ParamStore& store,
                     device::Stream& stream,
                     comm::MeshGroups& groups,
                     GradientSync& sync)
    : store_(store),
      stream_(stream),
      groups_(groups),
      sync_(sync),
      norms_(store, stream, groups, sync) {
  comm::Group& data = *groups_.data;
  for (const auto& b : store_.buckets()) {
    std::vector<std::size_t>& bytes = gather_bytes_.emplace_back();
    for (int r = 0; r < data.size(); ++r) {
      bytes.push_back(static_cast<std::size_t>(b->owned_by(r, data.size()).size()) *
                      device::bytes_of(b->shape().dtype));
    }
  }
}

void Optimizer::reduce_norms(StepTail& tail) {
  norms_.reduce(tail);
}

void Optimizer::update(const config::OptimizerConfig& config,
                       double learning_rate,
                       const StepTail& tail) {
  const auto clip_of = [&](double norm) {
    return config.clip_grad_norm > 0 ? std::min(1.0, config.clip_grad_norm / (norm + 1e-6)) : 1.0;
  };
  const double clip_kept = clip_of(tail.norm_kept);
  const double clip_new = clip_of(tail.norm_new);
  for (const auto& b : store_.buckets()) {
    const bool warming = is_warming(*b);
    const model::Birth& birth = b->shape().entity.birth;
    const View gradient = sync_.gradient(*b);
    for (Part& p : b->parts()) {
      ++p.updates;
      const Range e = overlap(p.range(), b->held());
      if (e.size() == 0) {
        continue;
      }
      const Range slot{e.begin - b->held().begin, e.end - b->held().begin};
      kernels::adamw_update(stream_,
                            {.value = b->value().slice_cols(e),
                             .gradient = gradient.slice_cols(e),
                             .exp_avg = b->exp_avg().slice_cols(slot),
                             .exp_avg_sq = b->exp_avg_sq().slice_cols(slot),
                             .clip = warming ? clip_new : clip_kept,
                             .learning_rate = learning_rate * birth.learning_rate_multiplier *
                                              birth_warmup(p.updates, birth.warmup_steps),
                             .beta1 = config.betas.first,
                             .beta2 = config.betas.second,
                             .eps = config.eps,
                             .weight_decay = p.spec.has_decay ? config.weight_decay : 0,
                             .updates = p.updates});
    }
  }
  gather_values();
  store_.pack(stream_);
}

void Optimizer::gather_values() {
  comm::Group& data = *groups_.data;
  if (data.size() == 1) {
    return;
  }
  const WorkScope scope(stream_.profile(), Work::value_gather);
  for (std::size_t i = 0; i < store_.buckets().size(); ++i) {
    const Bucket& b = *store_.buckets()[i];
    if (b.shape().is_sharded) {
      const View value = b.value();
      data.all_gather(value.slice_cols(b.owned()).data, gather_bytes_[i], value.data);
    }
  }
}

}  // namespace cambium::optimizer
