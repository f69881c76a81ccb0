// SPDX-License-Identifier: Apache-2.0
#include "optimizer/gradient_sync.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
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
constexpr int kExchangeTag = 7002;
// Exchanges under way at once: one that travels, one that waits for the slowest rank.
constexpr std::size_t kPlaces = 2;

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
                           comm::Reduction reduction,
                           bool is_overlapped)
    : store_(store),
      stream_(stream),
      groups_(groups),
      reduction_(reduction),
      is_overlapped_(is_overlapped && reduction == comm::Reduction::exact &&
                     groups.data->size() > 1),
      data_sum_(store.partition().logical.data, groups.data->size(), groups.data->rank()),
      tensor_sum_(store.partition().logical.tensor, groups.tensor->size(), groups.tensor->rank()),
      resident_(plan_resident_sum(SumTree(store.partition().logical.tensor),
                                  store.partition().tensor_shards())) {
  std::size_t lanes = 0;
  for (const auto& b : store_.buckets()) {
    lanes += static_cast<std::size_t>(b->lanes());
  }
  finished_.reserve(lanes);
  if (reduction == comm::Reduction::exact) {
    make_places();
  }
}

void GradientSync::make_places() {
  const std::size_t count = is_overlapped_ ? kPlaces : 1;
  places_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    Place& place = places_.emplace_back(
        Place{comm::TreeExchange(*groups_.data, data_sum_, kExchangeTag), device::Buffer()});
    std::size_t bytes = 0;
    for (const auto& b : store_.buckets()) {
      set_ranges(*b);
      const dim_t own = ranges_[static_cast<std::size_t>(data_sum_.rank)].size();
      bytes = std::max(bytes, place.exchange.workspace_bytes(own, b->shape().dtype));
    }
    place.workspace = store_.arenas().communication.allocate(bytes);
    groups_.data->reserve_requests(place.exchange.messages());
  }
}

void GradientSync::begin_step() {
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  CAMBIUM_CHECK(ended_ == started_, "a step began while gradients were still being exchanged");
  finished_.clear();
  started_ = ended_ = 0;
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

bool GradientSync::is_in(const Bucket& bucket, dim_t layer) const {
  const params::Partition& where = store_.partition();
  // A mirror works as the head.
  return layer ==
         (bucket.shape().is_mirror ? where.stages.first.back() : bucket.shape().entity.layer);
}

void GradientSync::finish(dim_t layer, dim_t i) {
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  const bool is_last = i + 1 == store_.partition().data_shards().size();
  for (const auto& b : store_.buckets()) {
    if (!is_in(*b, layer)) {
      continue;
    }
    for (int l = 0; l < b->lanes(); ++l) {
      finish_lane(*b, l, i);
      if (is_last) {
        finished_.push_back({b.get(), l});
      }
    }
    if (!is_last) {
      open_shard(i + 1, *b);
    }
  }
  if (is_overlapped_) {
    progress();
  }
}

void GradientSync::progress() {
  if (!is_overlapped_ || ended_ == finished_.size()) {
    return;
  }
  const WorkScope scope(stream_.profile(), Work::gradient_sum);
  while (ended_ < started_ && places_[ended_ % places_.size()].exchange.test()) {
    end_oldest();
  }
  while (started_ < finished_.size() && started_ - ended_ < places_.size()) {
    start_next();
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
  if (reduction_ == comm::Reduction::fast) {
    for (const Finished& f : finished_) {
      reduce_fast(*f.bucket, f.lane);
    }
    started_ = ended_ = finished_.size();
  }
  while (ended_ < finished_.size()) {
    while (started_ < finished_.size() && started_ - ended_ < places_.size()) {
      start_next();
    }
    end_oldest();
  }
  gather_shares();
  join_tied();
}

// An unsharded bucket so short that latency counts: every rank adds the whole for itself.
bool GradientSync::is_kept_whole(const Bucket& bucket) const {
  return !bucket.shape().is_sharded &&
         comm::is_sent_whole(
             data_sum_,
             static_cast<std::size_t>(bucket.elements()) * device::bytes_of(bucket.shape().dtype));
}

// Which elements each data rank sums.
void GradientSync::set_ranges(const Bucket& bucket) {
  const int ranks = groups_.data->size();
  ranges_.clear();
  for (int r = 0; r < ranks; ++r) {
    if (is_kept_whole(bucket)) {
      ranges_.push_back({0, bucket.elements()});
    } else {
      ranges_.push_back(bucket.shape().is_sharded ? bucket.owned_by(r, ranks)
                                                  : share(bucket.elements(), ranks, r));
    }
  }
}

void GradientSync::set_nodes(Bucket& bucket, int l) {
  nodes_.clear();
  for (const dim_t b : data_sum_.local.node_buffer) {
    nodes_.push_back(whole(bucket.lane(l).buffers[static_cast<std::size_t>(b)], bucket));
  }
}

void GradientSync::start_next() {
  const Finished next = finished_[started_];
  Place& place = places_[started_ % places_.size()];
  set_nodes(*next.bucket, next.lane);
  set_ranges(*next.bucket);
  const Range own = ranges_[static_cast<std::size_t>(data_sum_.rank)];
  place.exchange.start(nodes_, ranges_, nodes_[0].slice_cols(own), place.workspace);
  ++started_;
}

void GradientSync::end_oldest() {
  places_[ended_ % places_.size()].exchange.finish(stream_);
  ++ended_;
}

// Where every data rank updates everything, it gets the others' shares of the sum.
void GradientSync::gather_shares() {
  comm::Group& data = *groups_.data;
  if (data.size() == 1 || reduction_ == comm::Reduction::fast) {
    return;
  }
  for (const Finished& f : finished_) {
    if (f.bucket->shape().is_sharded || is_kept_whole(*f.bucket)) {
      continue;
    }
    set_nodes(*f.bucket, f.lane);
    set_ranges(*f.bucket);
    bytes_by_rank_.clear();
    for (const Range& range : ranges_) {
      bytes_by_rank_.push_back(static_cast<std::size_t>(range.size()) *
                               device::bytes_of(nodes_[0].dtype));
    }
    const Range own = ranges_[static_cast<std::size_t>(data_sum_.rank)];
    data.all_gather(nodes_[0].slice_cols(own).data, bytes_by_rank_, nodes_[0].data);
  }
}

void GradientSync::reduce_fast(Bucket& bucket, int l) {
  set_nodes(bucket, l);
  comm::tree_all_reduce(
      *groups_.data, stream_, data_sum_, nodes_, nodes_[0], workspace_, comm::Reduction::fast);
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
