// SPDX-License-Identifier: Apache-2.0
#include "optimizer/norm_reduction.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/tree.hpp"
#include "kernels/adamw.hpp"

namespace cambium::optimizer {
namespace {

using device::Work;
using device::WorkScope;
using params::Bucket;
using params::Part;

constexpr std::size_t kPerParameter = 3;  // uid, sum of squares, 1 when in birth warm-up

std::size_t index(dim_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

bool StepTail::is_finite() const {
  return std::isfinite(norm) && std::all_of(last_stage.begin(), last_stage.end(), [](double v) {
           return std::isfinite(v);
         });
}

bool is_warming(const Bucket& bucket) {
  const model::Birth& birth = bucket.shape().entity.birth;
  const bool is_grown =
      birth.step > 0 && bucket.shape().entity.kind != model::EntityKind::classifier;
  // Without a warm-up the first update still is: kept parameters then move as if nothing had grown
  // (level F3).
  return is_grown && bucket.parts().front().updates < std::max<std::int64_t>(birth.warmup_steps, 1);
}

NormReduction::NormReduction(params::ParamStore& store,
                             device::Stream& stream,
                             comm::MeshGroups& groups,
                             GradientSync& sync)
    : store_(store), stream_(stream), groups_(groups), sync_(sync) {
  is_sharded_ = !store_.buckets().empty() && store_.buckets().front()->shape().is_sharded;
  lay_grains();
  lay_tensor_message();
  lay_pipeline_message();
}

// Sharded: each data rank squares the grains that it owns and tells them. Else every rank squares
// all.
void NormReduction::lay_grains() {
  comm::Group& data = *groups_.data;
  std::vector<dim_t> first_grain;  // of each bucket, in the concatenation of this rank's buckets
  dim_t grains = 0;
  dim_t own = 0;
  for (const auto& b : store_.buckets()) {
    first_grain.push_back(grains);
    const Range owned =
        is_sharded_ ? b->owned_grains_by(data.rank(), data.size()) : Range{0, b->grains()};
    for (const Part& p : b->parts()) {
      parts_.push_back({grains + p.first_grain, grains + p.first_grain + p.grains});
      const Range g{std::max(owned.begin, p.first_grain),
                    std::min(owned.end, p.first_grain + p.grains)};
      if (g.begin < g.end) {
        const Range e{p.offset + (g.begin - p.first_grain) * p.grain,
                      p.offset + std::min((g.end - p.first_grain) * p.grain, p.elements)};
        runs_.push_back({b.get(), e, p.grain, {own, own + g.size()}});
        own += g.size();
      }
    }
    grains += b->grains();
  }
  own_.resize(index(own) + 1);
  squares_.resize(index(grains));
  dim_t from = 0;
  for (int r = 0; r < data.size(); ++r) {
    const dim_t begin = from;
    for (std::size_t i = 0; is_sharded_ && i < store_.buckets().size(); ++i) {
      const Range g = store_.buckets()[i]->owned_grains_by(r, data.size());
      moves_.push_back({from, first_grain[i] + g.begin, g.size()});
      from += g.size();
    }
    data_flags_.push_back(from++);
    data_bytes_.push_back(index(from - begin) * sizeof(double));
  }
  received_.resize(index(from));
}

// A tensor rank tells one value a part; a cut parameter has one part for each of its logical
// shards.
void NormReduction::lay_tensor_message() {
  comm::Group& tensor = *groups_.tensor;
  part_sums_.resize(parts_.size() + 1);
  for (const auto& b : store_.buckets()) {
    for (const model::ParameterSpec& p : b->shape().entity.parameters) {
      parameters_.push_back({b.get(), p.uid, {}});
    }
  }
  dim_t from = 0;
  std::size_t widest = 1;
  for (int r = 0; r < tensor.size(); ++r) {
    const dim_t begin = from;
    const dim_t held = share(store_.partition().logical.tensor, tensor.size(), r).size();
    std::size_t first = 0;
    for (const auto& b : store_.buckets()) {
      const auto& specs = b->shape().entity.parameters;
      for (const bool is_replicated : {false, true}) {  // the order of the bucket's parts
        for (std::size_t k = 0; k < specs.size(); ++k) {
          if ((specs[k].cut == model::Cut::replicated) != is_replicated) {
            continue;
          }
          std::vector<dim_t>& at = parameters_[first + k].at;
          const dim_t count = is_replicated ? 1 : held;
          for (dim_t i = 0; i < count && (!is_replicated || r == 0); ++i) {
            at.push_back(from + i);
          }
          widest = std::max(widest, at.size());
          from += count;
        }
      }
      first += specs.size();
    }
    tensor_flags_.push_back(from++);
    tensor_bytes_.push_back(index(from - begin) * sizeof(double));
  }
  tensor_received_.resize(index(from));
  column_.reserve(widest);
}

void NormReduction::lay_pipeline_message() {
  std::erase_if(parameters_, [](const Parameter& p) { return p.bucket->shape().is_mirror; });
  const auto stages = static_cast<std::size_t>(groups_.pipeline->size());
  stage_parameters_.assign(stages, 0);
  for (const model::Entity& e : store_.entities()) {
    const auto stage = static_cast<std::size_t>(store_.partition().stages.stage_of(e.layer));
    for (const model::ParameterSpec& p : e.parameters) {
      by_uid_.push_back({p.uid, stage, stage_parameters_[stage]++});
    }
  }
  std::sort(
      by_uid_.begin(), by_uid_.end(), [](const Place& a, const Place& b) { return a.uid < b.uid; });
  stage_bytes_.resize(stages);
  stage_begin_.resize(stages);
}

void NormReduction::reduce(StepTail& tail) {
  const WorkScope scope(stream_.profile(), Work::gradient_norm);
  square_grains();
  exchange_over_data(tail.flags);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    part_sums_[i] = tree_sum_in_place(
        std::span(squares_).subspan(index(parts_[i].begin), index(parts_[i].size())));
  }
  exchange_over_tensor(tail.flags);
  exchange_over_stages(tail);
}

void NormReduction::square_grains() {
  std::vector<double>& to = is_sharded_ ? own_ : squares_;
  for (const GrainRun& run : runs_) {
    kernels::grain_squares(stream_,
                           {.gradient = sync_.gradient(*run.bucket).slice_cols(run.elements),
                            .grain = run.grain,
                            .squares = device::view_of(to.data() + run.at.begin, run.at.size())});
  }
}

void NormReduction::exchange_over_data(std::int64_t& flags) {
  own_.back() = static_cast<double>(flags);
  groups_.data->all_gather(is_sharded_ ? own_.data() : &own_.back(), data_bytes_, received_.data());
  for (const Move& m : moves_) {
    std::copy_n(received_.begin() + m.from, m.count, squares_.begin() + m.to);
  }
  for (const dim_t at : data_flags_) {
    flags |= static_cast<std::int64_t>(received_[index(at)]);
  }
}

void NormReduction::exchange_over_tensor(std::int64_t& flags) {
  part_sums_.back() = static_cast<double>(flags);
  groups_.tensor->all_gather(part_sums_.data(), tensor_bytes_, tensor_received_.data());
  for (const dim_t at : tensor_flags_) {
    flags |= static_cast<std::int64_t>(tensor_received_[index(at)]);
  }
}

// A stage tells its flags, what only the last stage knows, and kPerParameter values a parameter.
void NormReduction::exchange_over_stages(StepTail& tail) {
  const std::size_t head = 1 + tail.last_stage.size();
  message_.clear();
  message_.push_back(static_cast<double>(tail.flags));
  message_.insert(message_.end(), tail.last_stage.begin(), tail.last_stage.end());
  for (const Parameter& p : parameters_) {
    column_.clear();
    for (const dim_t at : p.at) {
      column_.push_back(tensor_received_[index(at)]);
    }
    message_.push_back(static_cast<double>(p.uid));
    message_.push_back(tree_sum_in_place(std::span(column_)));
    message_.push_back(is_warming(*p.bucket) ? 1 : 0);
  }
  std::size_t total = 0;
  for (std::size_t s = 0; s < stage_bytes_.size(); ++s) {
    const std::size_t count = head + kPerParameter * stage_parameters_[s];
    stage_begin_[s] = total;
    stage_bytes_[s] = count * sizeof(double);
    total += count;
  }
  stages_received_.resize(total);
  groups_.pipeline->all_gather(message_.data(), stage_bytes_, stages_received_.data());
  for (const std::size_t begin : stage_begin_) {
    tail.flags |= static_cast<std::int64_t>(stages_received_[begin]);
  }
  const auto last = stages_received_.begin() + static_cast<std::ptrdiff_t>(stage_begin_.back()) + 1;
  std::copy_n(last, tail.last_stage.size(), tail.last_stage.begin());
  double kept = 0;
  double fresh = 0;
  for (const Place& p : by_uid_) {
    const double* at =
        stages_received_.data() + stage_begin_[p.stage] + head + kPerParameter * p.index;
    CAMBIUM_CHECK(at[0] == static_cast<double>(p.uid), "stages disagree on their parameters");
    (at[2] != 0 ? fresh : kept) += at[1];
  }
  tail.norm_kept = std::sqrt(kept);
  tail.norm_new = std::sqrt(fresh);
  tail.norm = std::sqrt(kept + fresh);
}

}  // namespace cambium::optimizer
