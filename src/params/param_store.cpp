// SPDX-License-Identifier: Apache-2.0
#include "params/param_store.hpp"

#include "base/error.hpp"

namespace cambium::params {

ParamStore::ParamStore(const model::Spec& spec,
                       const Partition& partition,
                       const StoreShape& shape,
                       std::shared_ptr<Arenas> arenas)
    : spec_(spec),
      partition_(partition),
      shape_(shape),
      arenas_(std::move(arenas)),
      entities_(inventory(spec)) {
  build(nullptr);
}

ParamStore ParamStore::regrown(const model::Spec& spec, const Partition& partition) const {
  ParamStore next(*this);
  next.spec_ = spec;
  next.partition_ = partition;
  next.entities_ = inventory(spec);
  next.buckets_.clear();
  next.head_table_ = nullptr;
  next.build(this);
  return next;
}

void ParamStore::build(const ParamStore* old) {
  const auto take = [&](const BucketShape& shape) {
    if (old != nullptr) {
      for (const std::shared_ptr<Bucket>& b : old->buckets_) {
        if (b->uid() == shape.entity.uid && b->shape().is_mirror == shape.is_mirror &&
            b->lanes() == shape.lanes) {
          buckets_.push_back(b);
          return b.get();
        }
      }
    }
    buckets_.push_back(std::make_shared<Bucket>(shape, partition_, *arenas_, shape_.backend));
    return buckets_.back().get();
  };
  const bool has_one_stage = partition_.physical.pipeline == 1;
  for (const model::Entity& e : entities_) {
    if (!partition_.holds_layer(e.layer)) {
      continue;
    }
    const bool has_two_uses =
        e.kind == model::EntityKind::embedding && spec_.is_tied && has_one_stage;
    Bucket* bucket =
        take({e, shape_.dtype, false, has_two_uses ? 2 : 1, shape_.is_sharded, shape_.panels});
    if (has_two_uses) {
      head_table_ = bucket;
    }
  }
  if (spec_.is_tied && !has_one_stage && partition_.is_last()) {
    head_table_ =
        take({entities_.front(), shape_.dtype, true, 1, shape_.is_sharded, shape_.panels});
  }
}

Bucket* ParamStore::find(std::uint64_t uid) const {
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    if (b->uid() == uid && !b->shape().is_mirror) {
      return b.get();
    }
  }
  return nullptr;
}

void ParamStore::initialise(std::uint64_t seed) {
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    b->initialise(seed);
  }
}

void ParamStore::pack(Stream& stream) {
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    b->pack(stream);
  }
}

std::size_t ParamStore::parameter_bytes() const {
  std::size_t bytes = 0;
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    bytes += static_cast<std::size_t>(b->elements()) * device::bytes_of(shape_.dtype);
  }
  return bytes;
}

void ParamStore::take_names() {
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    for (const model::Entity& e : entities_) {
      if (e.uid == b->uid()) {
        b->rename(e);
      }
    }
  }
}

void ParamStore::check_invariants() const {
  for (const std::shared_ptr<Bucket>& b : buckets_) {
    b->check_invariants();
    CAMBIUM_CHECK(b->shape().is_mirror || partition_.holds_layer(b->shape().entity.layer),
                  "a bucket of another stage");
  }
}

}  // namespace cambium::params
