// SPDX-License-Identifier: Apache-2.0
#include "optimizer/gradient_sync.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/elementwise.hpp"

namespace cambium::optimizer {
namespace {

using device::View;
using device::Work;
using device::WorkScope;
using params::Bucket;
using params::GradientLane;
using params::Part;

constexpr int kTiedTag = 7001;

void zero(View v) {
  std::memset(v.data, 0, static_cast<std::size_t>(v.size()) * device::bytes_of(v.dtype));
}

View whole(const device::Buffer& buffer, const Bucket& bucket) {
  return buffer.view(bucket.shape().dtype, 1, bucket.elements());
}

// A replicated parameter's gradient from its total leaf: the leaf itself, or its sum (a scalar
// gate), ascending.
template <typename T>
void fold_leaf(const Part& p, const T* total, T* gradient) {
  if (p.spec.leaf_elements == p.elements) {
    std::copy_n(total + p.leaf_offset, p.elements, gradient + p.offset);
    return;
  }
  T sum = 0;
  for (dim_t i = 0; i < p.spec.leaf_elements; ++i) {
    sum += total[p.leaf_offset + i];
  }
  gradient[p.offset] = sum;
}

}  // namespace

GradientSync::GradientSync(params::ParamStore& store,
                           device::Stream& stream,
                           comm::MeshGroups& groups,
                           comm::Reduction reduction)
    : store_(store),
      stream_(stream),
      groups_(groups),
      reduction_(reduction),
      data_sum_(store.partition().logical.data, groups.data->size(), groups.data->rank()),
      tensor_sum_(store.partition().logical.tensor, groups.tensor->size(), groups.tensor->rank()),
      resident_(plan_resident_sum(SumTree(store.partition().logical.tensor),
                                  store.partition().tensor_shards())) {}

void GradientSync::begin_step() {
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  for (const auto& b : store_.buckets()) {
    open_shard(0, *b);
  }
}

void GradientSync::open_shard(dim_t i, Bucket& bucket) {
  const dim_t buffer = data_sum_.local.leaf_buffer[static_cast<std::size_t>(i)];
  for (int l = 0; l < bucket.lanes(); ++l) {
    GradientLane& lane = bucket.lane(l);
    lane.current = whole(lane.buffers[static_cast<std::size_t>(buffer)], bucket);
    std::fill(lane.is_touched.begin(), lane.is_touched.end(), 0);
    std::memset(lane.leaves.data(), 0, lane.leaves.bytes());
  }
}

bool GradientSync::is_in(const Bucket& bucket, int chunk) const {
  const params::Partition& where = store_.partition();
  if (bucket.shape().is_mirror) {  // works as the head
    return chunk + 1 == where.chunks();
  }
  return where.stages.chunk_of(bucket.shape().entity.layer) == chunk;
}

void GradientSync::finish_shard(dim_t i, int chunk) {
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  for (const auto& b : store_.buckets()) {
    if (!is_in(*b, chunk)) {
      continue;
    }
    for (int l = 0; l < b->lanes(); ++l) {
      finish_lane(*b, l, i);
    }
    if (i + 1 < store_.partition().data_shards().size()) {
      open_shard(i + 1, *b);
    }
  }
}

void GradientSync::finish_lane(Bucket& bucket, int l, dim_t i) {
  GradientLane& lane = bucket.lane(l);
  for (std::size_t p = 0; p < bucket.parts().size(); ++p) {
    const Part& part = bucket.parts()[p];
    if (!part.is_replicated() &&
        lane.is_touched[p] == 0) {  // nothing reached it: a gradient of zero
      zero(lane.current.slice_cols(part.range()));
    }
  }
  if (bucket.replicated().size() > 0) {
    reduce_leaves(bucket, l);
  }
  for (const AddStep& step : data_sum_.local.after[static_cast<std::size_t>(i)]) {
    kernels::add_into(stream_,
                      whole(lane.buffers[static_cast<std::size_t>(step.to)], bucket),
                      whole(lane.buffers[static_cast<std::size_t>(step.from)], bucket));
  }
}

void GradientSync::reduce_leaves(Bucket& bucket, int l) {
  const device::DType t = bucket.shape().dtype;
  for (const AddStep& step : resident_.steps) {
    kernels::add_into(stream_, bucket.leaf_row(l, step.to), bucket.leaf_row(l, step.from));
  }
  nodes_.clear();
  for (const dim_t slot : resident_.node_slot) {
    nodes_.push_back(bucket.leaf_row(l, slot));
  }
  const std::size_t bytes = static_cast<std::size_t>(bucket.leaf_width()) * device::bytes_of(t);
  if (leaf_total_.bytes() < bytes) {
    leaf_total_ = store_.arenas().communication.allocate(bytes);
  }
  const View total = leaf_total_.view(t, 1, bucket.leaf_width());
  comm::tree_all_reduce(
      *groups_.tensor, stream_, tensor_sum_, nodes_, total, workspace_, reduction_);
  const View current = bucket.lane(l).current;
  for (const Part& p : bucket.parts()) {
    if (p.is_replicated()) {
      if (t == device::DType::f64) {
        fold_leaf(p, total.as<double>(), current.as<double>());
      } else {
        fold_leaf(p, total.as<float>(), current.as<float>());
      }
    }
  }
}

void GradientSync::reduce() {
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  for (const auto& b : store_.buckets()) {
    for (int l = 0; l < b->lanes(); ++l) {
      reduce_lane(*b, l);
    }
  }
  join_tied();
}

void GradientSync::reduce_lane(Bucket& bucket, int l) {
  GradientLane& lane = bucket.lane(l);
  nodes_.clear();
  for (const dim_t b : data_sum_.local.node_buffer) {
    nodes_.push_back(whole(lane.buffers[static_cast<std::size_t>(b)], bucket));
  }
  comm::Group& data = *groups_.data;
  if (!bucket.shape().is_sharded) {
    comm::tree_all_reduce(data, stream_, data_sum_, nodes_, nodes_[0], workspace_, reduction_);
    return;
  }
  ranges_.clear();
  for (int r = 0; r < data.size(); ++r) {
    ranges_.push_back(bucket.owned_by(r, data.size()));
  }
  comm::tree_reduce_scatter(data,
                            stream_,
                            data_sum_,
                            nodes_,
                            ranges_,
                            nodes_[0].slice_cols(bucket.owned()),
                            workspace_,
                            reduction_);
}

// A tied table's two gradients, each reduced by itself, are added once: lookup + head (design.md
// §1.9).
void GradientSync::join_tied() {
  for (const auto& b : store_.buckets()) {
    if (b->lanes() == 2) {
      const View head =
          whole(b->lane(1).buffers[static_cast<std::size_t>(data_sum_.local.node_buffer[0])], *b);
      kernels::add_into(stream_, gradient(*b).slice_cols(b->held()), head.slice_cols(b->held()));
    }
  }
  comm::Group& pipeline = *groups_.pipeline;
  const params::Partition& where = store_.partition();
  const bool is_tied_over_stages =
      pipeline.size() > 1 && store_.entities().back().kind != model::EntityKind::head &&
      std::none_of(store_.entities().begin(), store_.entities().end(), [](const auto& e) {
        return e.kind == model::EntityKind::head;
      });
  if (!is_tied_over_stages || (!where.is_first() && !where.is_last())) {
    return;
  }
  Bucket& table =
      where.is_first() ? *store_.find(store_.entities().front().uid) : *store_.head_table();
  const int peer = where.is_first() ? pipeline.size() - 1 : 0;
  const View mine = gradient(table).slice_cols(table.held());
  const std::size_t bytes = static_cast<std::size_t>(mine.size()) * device::bytes_of(mine.dtype);
  if (tied_.bytes() < bytes) {
    tied_ = store_.arenas().communication.allocate(bytes);
  }
  const View other = tied_.view(mine.dtype, 1, mine.cols);
  comm::Request receive = pipeline.receive(other.data, bytes, peer, kTiedTag);
  comm::Request send = pipeline.send(mine.data, bytes, peer, kTiedTag);
  receive.wait();
  send.wait();
  kernels::add_into(stream_, mine, other);  // a + b has the bits of b + a
}

View GradientSync::gradient(Bucket& bucket) const {
  return whole(bucket.lane(0).buffers[static_cast<std::size_t>(data_sum_.local.node_buffer[0])],
               bucket);
}

}  // namespace cambium::optimizer
