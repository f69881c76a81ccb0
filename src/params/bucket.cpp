// SPDX-License-Identifier: Apache-2.0
#include "params/bucket.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::params {

Bucket::Bucket(const BucketShape& shape,
               const Partition& partition,
               Arenas& arenas,
               device::Backend backend)
    : shape_(shape), shards_(partition.tensor_shards()) {
  lay_out(partition);
  const DType t = shape_.dtype;
  value_ = arenas.params.allocate(t, elements_);
  owned_ = owned_by(partition.place.data, partition.physical.data);
  exp_avg_ = arenas.optimizer.allocate(t, held().size());
  exp_avg_sq_ = arenas.optimizer.allocate(t, held().size());

  dim_t packed = 0;
  const bool has_panels = backend == device::Backend::cpu;
  for (Part& p : parts_) {
    const dim_t n = p.rows.size();
    const dim_t k = p.cols.size();
    p.weight.plain = value_.view(t, n, k, static_cast<std::size_t>(p.offset) * device::bytes_of(t));
    if (has_panels && is_multiplied(p.spec)) {
      packed += kernels::packed_elements(n, k, shape_.panels) +
                kernels::packed_elements(k, n, shape_.panels);
    }
  }
  if (packed > 0) {
    panels_ = arenas.params.allocate(shape_.panels, packed);
    dim_t at = 0;
    const auto next = [&](dim_t size) {
      const View v = panels_.view(
          shape_.panels, 1, size, static_cast<std::size_t>(at) * device::bytes_of(shape_.panels));
      at += size;
      return v;
    };
    for (Part& p : parts_) {
      if (is_multiplied(p.spec)) {
        p.weight.forward =
            next(kernels::packed_elements(p.rows.size(), p.cols.size(), shape_.panels));
        p.weight.transposed =
            next(kernels::packed_elements(p.cols.size(), p.rows.size(), shape_.panels));
      }
    }
  }

  const SumTree tree(partition.logical.data);
  const dim_t buffers = plan_local_sum(tree, partition.data_shards()).buffers;
  lanes_.resize(static_cast<std::size_t>(shape_.lanes));
  for (GradientLane& lane : lanes_) {
    for (dim_t b = 0; b < buffers; ++b) {
      lane.buffers.push_back(arenas.grads.allocate(t, elements_));
    }
    lane.leaves = arenas.grads.allocate(t, leaf_width_ * shards_.size());
    lane.current = lane.buffers[0].view(t, 1, elements_);
    lane.is_touched.assign(parts_.size(), 0);
  }
}

void Bucket::lay_out(const Partition& partition) {
  // Cut parameters first, then the replicated ones, so that those are one message of the tensor
  // group.
  const dim_t shards = partition.logical.tensor;
  for (const model::ParameterSpec& p : shape_.entity.parameters) {
    if (p.cut != model::Cut::replicated) {
      for (dim_t s = shards_.begin; s < shards_.end; ++s) {
        add_part(p, shards, s);
      }
    }
  }
  replicated_.begin = elements_;
  for (const model::ParameterSpec& p : shape_.entity.parameters) {
    if (p.cut == model::Cut::replicated) {
      add_part(p, shards, 0);
    }
  }
  replicated_.end = elements_;
}

void Bucket::add_part(const model::ParameterSpec& p, dim_t shards, dim_t shard) {
  const model::Rectangle r = shard_of(p, shards, shard);
  Part part;
  part.spec = p;
  part.shard = shard;
  part.rows = r.rows;
  part.cols = r.cols;
  part.offset = elements_;
  part.elements = r.rows.size() * r.cols.size();
  part.grain = p.is_vector ? model::kVectorGrain : std::max<dim_t>(r.cols.size(), 1);
  part.first_grain = grains_;
  part.grains = ceil_div(part.elements, part.grain);
  if (part.is_replicated()) {
    part.leaf_offset = leaf_width_;
    leaf_width_ += p.leaf_elements;
  }
  elements_ += part.elements;
  grains_ += part.grains;
  parts_.push_back(part);
}

Part& Bucket::part(dim_t k, dim_t shard) {
  const std::uint64_t uid = shape_.entity.parameters[static_cast<std::size_t>(k)].uid;
  for (Part& p : parts_) {
    if (p.spec.uid == uid && (p.is_replicated() || p.shard == shard)) {
      return p;
    }
  }
  throw Error(
      Code::bug,
      fmt::format("bucket {}: no part of parameter {} for shard {}", this->uid(), k, shard));
}

Range Bucket::owned_grains_by(int rank, int ranks) const {
  return share(grains_, ranks, rank);
}

Range Bucket::owned_by(int rank, int ranks) const {
  const auto element_of = [this](dim_t grain) {
    for (const Part& p : parts_) {
      if (grain < p.first_grain + p.grains) {
        return p.offset + std::min((grain - p.first_grain) * p.grain, p.elements);
      }
    }
    return elements_;
  };
  const Range g = owned_grains_by(rank, ranks);
  return {element_of(g.begin), element_of(g.end)};
}

View Bucket::value() const {
  return value_.view(shape_.dtype, 1, elements_);
}

View Bucket::exp_avg() const {
  return exp_avg_.view(shape_.dtype, 1, held().size());
}

View Bucket::exp_avg_sq() const {
  return exp_avg_sq_.view(shape_.dtype, 1, held().size());
}

View Bucket::gradient(int lane, const Part& part) const {
  const GradientLane& l = lanes_[static_cast<std::size_t>(lane)];
  View v = l.current.slice_cols(part.range());
  v.rows = part.rows.size();
  v.cols = part.cols.size();
  v.stride = v.cols;
  return v;
}

kernels::Accumulate Bucket::touch(int lane, const Part& part) {
  char& flag = lanes_[static_cast<std::size_t>(lane)]
                   .is_touched[static_cast<std::size_t>(&part - parts_.data())];
  const bool was = flag != 0;
  flag = 1;
  return was ? kernels::Accumulate::yes : kernels::Accumulate::no;
}

View Bucket::leaf_row(int lane, dim_t i) const {
  const GradientLane& l = lanes_[static_cast<std::size_t>(lane)];
  return l.leaves.view(shape_.dtype, shards_.size(), leaf_width_).slice_rows({i, i + 1});
}

View Bucket::leaf(int lane, const Part& part, dim_t i) const {
  return leaf_row(lane, i).slice_cols(
      {part.leaf_offset, part.leaf_offset + part.spec.leaf_elements});
}

void Bucket::initialise(std::uint64_t seed) {
  for (const Part& p : parts_) {
    const auto fill = [&](auto* out) {
      for (dim_t r = p.rows.begin; r < p.rows.end; ++r) {
        for (dim_t c = p.cols.begin; c < p.cols.end; ++c) {
          *out++ = static_cast<std::remove_reference_t<decltype(*out)>>(static_cast<float>(
              initial_value(p.spec, seed, r, c)));  // fp64 runs start from the same fp32 values
        }
      }
    };
    if (shape_.dtype == DType::f64) {
      fill(value().as<double>() + p.offset);
    } else {
      fill(value().as<float>() + p.offset);
    }
  }
}

void Bucket::pack(Stream& stream) {
  for (const Part& p : parts_) {
    if (!p.weight.forward.empty()) {
      pack_weight(stream, p.weight);
    }
  }
}

std::size_t Bucket::state_bytes() const {
  return value_.bytes() + exp_avg_.bytes() + exp_avg_sq_.bytes();
}

void Bucket::check_invariants() const {
  dim_t element = 0;
  dim_t grain = 0;
  for (const Part& p : parts_) {
    CAMBIUM_CHECK(p.offset == element && p.first_grain == grain, p.spec.name);
    CAMBIUM_CHECK(p.elements == p.rows.size() * p.cols.size(), p.spec.name);
    element += p.elements;
    grain += p.grains;
  }
  CAMBIUM_CHECK(element == elements_ && grain == grains_, "parts do not fill the bucket");
  CAMBIUM_CHECK(replicated_.end == elements_, "replicated parts are not the tail");
}

void Bucket::rename(const model::Entity& entity) {
  CAMBIUM_CHECK(entity.uid == uid(), "a bucket renamed as another entity");
  shape_.entity = entity;
  for (Part& p : parts_) {
    for (const model::ParameterSpec& spec : entity.parameters) {
      if (spec.uid == p.spec.uid) {
        p.spec.name = spec.name;
      }
    }
  }
}

}  // namespace cambium::params
