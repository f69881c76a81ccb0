// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <map>

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

bool StepTail::is_finite() const {
  if (!std::isfinite(norm)) {
    return false;
  }
  return std::all_of(
      last_stage.begin(), last_stage.end(), [](double v) { return std::isfinite(v); });
}

Optimizer::Optimizer(params::ParamStore& store,
                     device::Stream& stream,
                     comm::MeshGroups& groups,
                     GradientSync& sync)
    : store_(store), stream_(stream), groups_(groups), sync_(sync) {
  for (const auto& b : store_.buckets()) {
    first_grain_.push_back(grains_);
    grains_ += b->grains();
  }
  squares_.resize(static_cast<std::size_t>(grains_));
  received_.resize(static_cast<std::size_t>(grains_) +
                   static_cast<std::size_t>(groups_.data->size()));
}

bool Optimizer::is_warming(const Bucket& bucket) const {
  const model::Birth& birth = bucket.shape().entity.birth;
  const bool is_grown =
      birth.step > 0 && bucket.shape().entity.kind != model::EntityKind::classifier;
  // Without a warm-up the first update still is: kept parameters then move as if nothing had grown
  // (level F3).
  return is_grown && bucket.parts().front().updates < std::max<std::int64_t>(birth.warmup_steps, 1);
}

// Every grain's sum of squares on every data rank of the stage, in bucket order.
std::vector<double> Optimizer::gather_grain_squares(std::int64_t& flags) {
  comm::Group& data = *groups_.data;
  std::vector<double> mine;
  for (const auto& b : store_.buckets()) {
    const bool is_sharded = b->shape().is_sharded;
    const Range grains =
        is_sharded ? b->owned_grains_by(data.rank(), data.size()) : Range{0, b->grains()};
    for (const Part& p : b->parts()) {
      const Range g = overlap({p.first_grain, p.first_grain + p.grains}, grains);
      if (g.size() == 0) {
        continue;
      }
      const Range e{p.offset + (g.begin - p.first_grain) * p.grain,
                    p.offset + std::min((g.end - p.first_grain) * p.grain, p.elements)};
      const std::size_t at = mine.size();
      mine.resize(at + static_cast<std::size_t>(g.size()));
      kernels::grain_squares(stream_,
                             {.gradient = sync_.gradient(*b).slice_cols(e),
                              .grain = p.grain,
                              .squares = device::view_of(mine.data() + at, g.size())});
    }
  }
  const bool is_sharded = !store_.buckets().empty() && store_.buckets().front()->shape().is_sharded;
  if (!is_sharded) {
    std::vector<std::int64_t> f = {flags};
    std::vector<double> all(static_cast<std::size_t>(data.size()));
    const std::vector<std::size_t> bytes(all.size(), sizeof(double));
    const auto own = static_cast<double>(flags);
    data.all_gather(&own, bytes, all.data());
    for (const double v : all) {
      flags |= static_cast<std::int64_t>(v);
    }
    return mine;
  }
  mine.push_back(static_cast<double>(flags));
  std::vector<std::size_t> bytes;
  for (int r = 0; r < data.size(); ++r) {
    dim_t count = 1;
    for (const auto& b : store_.buckets()) {
      count += b->owned_grains_by(r, data.size()).size();
    }
    bytes.push_back(static_cast<std::size_t>(count) * sizeof(double));
  }
  data.all_gather(mine.data(), bytes, received_.data());
  std::vector<double> squares(static_cast<std::size_t>(grains_));
  const double* from = received_.data();
  for (int r = 0; r < data.size(); ++r) {
    for (std::size_t i = 0; i < store_.buckets().size(); ++i) {
      const Range g = store_.buckets()[i]->owned_grains_by(r, data.size());
      std::copy_n(from, g.size(), squares.begin() + first_grain_[i] + g.begin);
      from += g.size();
    }
    flags |= static_cast<std::int64_t>(*from++);
  }
  return squares;
}

std::vector<double> Optimizer::sum_parts(const std::vector<double>& squares) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < store_.buckets().size(); ++i) {
    for (const Part& p : store_.buckets()[i]->parts()) {
      const auto begin = squares.begin() + first_grain_[i] + p.first_grain;
      values.push_back(tree_sum(std::vector<double>(begin, begin + p.grains)));
    }
  }
  return values;
}

void Optimizer::reduce_norms(StepTail& tail) {
  const WorkScope scope(stream_.profile(), Work::gradient_norm);
  std::vector<double> mine = sum_parts(gather_grain_squares(tail.flags));
  mine.push_back(static_cast<double>(tail.flags));

  // Tensor ranks: a cut parameter has one value per logical shard, in shard order.
  comm::Group& tensor = *groups_.tensor;
  const dim_t shards = store_.partition().logical.tensor;
  std::vector<std::size_t> bytes;
  std::size_t total = 0;
  for (int r = 0; r < tensor.size(); ++r) {
    const dim_t held = share(shards, tensor.size(), r).size();
    std::size_t count = 1;
    for (const auto& b : store_.buckets()) {
      for (const model::ParameterSpec& p : b->shape().entity.parameters) {
        count += p.cut == model::Cut::replicated ? 1 : static_cast<std::size_t>(held);
      }
    }
    bytes.push_back(count * sizeof(double));
    total += count;
  }
  std::vector<double> all(total);
  tensor.all_gather(mine.data(), bytes, all.data());
  std::map<std::pair<const Bucket*, std::uint64_t>, std::vector<double>> by_parameter;
  const double* from = all.data();
  for (int r = 0; r < tensor.size(); ++r) {
    const dim_t held = share(shards, tensor.size(), r).size();
    for (const auto& b : store_.buckets()) {
      for (const bool is_replicated : {false, true}) {  // the order of the bucket's parts
        for (const model::ParameterSpec& p : b->shape().entity.parameters) {
          if ((p.cut == model::Cut::replicated) != is_replicated) {
            continue;
          }
          auto& values = by_parameter[{b.get(), p.uid}];
          const dim_t count = is_replicated ? 1 : held;
          if (!is_replicated || r == 0) {
            values.insert(values.end(), from, from + count);
          }
          from += count;
        }
      }
    }
    tail.flags |= static_cast<std::int64_t>(*from++);
  }

  // Stages: (uid, value, group) of every parameter, flags, and what only the last stage knows.
  comm::Group& pipeline = *groups_.pipeline;
  std::vector<double> message = {static_cast<double>(tail.flags)};
  message.insert(message.end(), tail.last_stage.begin(), tail.last_stage.end());
  for (const auto& b : store_.buckets()) {
    if (b->shape().is_mirror) {
      continue;
    }
    for (const model::ParameterSpec& p : b->shape().entity.parameters) {
      message.push_back(static_cast<double>(p.uid));
      message.push_back(tree_sum(by_parameter[{b.get(), p.uid}]));
      message.push_back(is_warming(*b) ? 1 : 0);
    }
  }
  std::vector<std::size_t> counts(static_cast<std::size_t>(pipeline.size()),
                                  1 + tail.last_stage.size());
  for (const model::Entity& e : store_.entities()) {
    counts[static_cast<std::size_t>(store_.partition().stages.stage_of(e.layer))] +=
        3 * e.parameters.size();
  }
  std::vector<std::size_t> sizes;
  std::vector<double> everything;
  for (const std::size_t c : counts) {
    sizes.push_back(c * sizeof(double));
    everything.resize(everything.size() + c);
  }
  pipeline.all_gather(message.data(), sizes, everything.data());
  std::map<std::uint64_t, std::pair<double, bool>> by_uid;
  const double* at = everything.data();
  for (int s = 0; s < pipeline.size(); ++s) {
    const double* end = at + counts[static_cast<std::size_t>(s)];
    tail.flags |= static_cast<std::int64_t>(*at++);
    if (s == pipeline.size() - 1) {
      std::copy_n(at, tail.last_stage.size(), tail.last_stage.begin());
    }
    for (at += tail.last_stage.size(); at < end; at += 3) {
      by_uid[static_cast<std::uint64_t>(at[0])] = {at[1], at[2] != 0};
    }
  }
  double kept = 0;
  double fresh = 0;
  for (const auto& [uid, value] : by_uid) {
    (value.second ? fresh : kept) += value.first;
  }
  tail.norm_kept = std::sqrt(kept);
  tail.norm_new = std::sqrt(fresh);
  tail.norm = std::sqrt(kept + fresh);
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
  for (const auto& b : store_.buckets()) {
    if (!b->shape().is_sharded) {
      continue;
    }
    std::vector<std::size_t> bytes;
    for (int r = 0; r < data.size(); ++r) {
      bytes.push_back(static_cast<std::size_t>(b->owned_by(r, data.size()).size()) *
                      device::bytes_of(b->shape().dtype));
    }
    const View value = b->value();
    data.all_gather(value.slice_cols(b->owned()).data, bytes, value.data);
  }
}

}  // namespace cambium::optimizer
