// optimizer/gradient_sync.hpp — from micro-batch gradients to the gradient of the step, in the
// contract's order: micro-batches ascending within a logical data shard (the layers do that), token
// sums of replicated parameters by the tree over logical tensor shards, then everything by the tree
// over logical data shards (design.md §1, rules 4, 5, 8, 9). A layer's exchange between data ranks
// begins when its last weight gradient is done and travels while earlier layers are at work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "comm/tree_exchange.hpp"
#include "comm/world.hpp"
#include "params/param_store.hpp"

namespace cambium::optimizer {

class GradientSync {
 public:
  // is_overlapped: exchange beside the backward (exact reductions only); else all in reduce().
  GradientSync(params::ParamStore& store,
               device::Stream& stream,
               comm::MeshGroups& groups,
               comm::Reduction reduction,
               bool is_overlapped);

  // Forgets the last step's gradients.
  void begin_step();

  // The last micro-batch of local data shard i is done in what lives in `layer` (-1: before the
  // first, number of layers: behind the last). Called in the same order by all ranks of a stage.
  // Never waits for data ranks. Collective over: tensor.
  void finish(dim_t layer, dim_t i);

  // Moves exchanges on that are under way, and begins those that wait for a place. Never waits.
  void progress();

  // Leaves the step's gradient in lane 0 of every bucket: owned elements when the optimizer is
  // sharded, else all. Collective over: data, and pipeline for a tied table. Bytes: a ring's, per
  // bucket.
  void reduce();

  // Lane 0's reduced gradient (1, elements); only held() is meaningful.
  [[nodiscard]] device::View gradient(params::Bucket& bucket) const;

 private:
  // One lane of a bucket whose last data shard is done.
  struct Finished {
    params::Bucket* bucket;
    int lane;
  };

  // An exchange that may be under way.
  struct Place {
    comm::TreeExchange exchange;
    device::Buffer workspace;
  };

  void make_places();
  void open_shard(dim_t i, params::Bucket& bucket);
  [[nodiscard]] bool is_in(const params::Bucket& bucket, dim_t layer) const;
  void finish_lane(params::Bucket& bucket, int lane, dim_t i);
  void reduce_leaves(params::Bucket& bucket, int lane);
  [[nodiscard]] bool is_kept_whole(const params::Bucket& bucket) const;
  void set_ranges(const params::Bucket& bucket);
  void set_nodes(params::Bucket& bucket, int lane);
  void start_next();
  void end_oldest();
  void gather_shares();
  void reduce_fast(params::Bucket& bucket, int lane);
  void join_tied();

  params::ParamStore& store_;
  device::Stream& stream_;
  comm::MeshGroups& groups_;
  comm::Reduction reduction_;
  bool is_overlapped_;
  comm::ShardSum data_sum_;
  comm::ShardSum tensor_sum_;
  ResidentSum resident_;
  device::Buffer workspace_;
  device::Buffer leaf_total_;
  device::Buffer tied_;
  std::vector<Finished> finished_;  // of this step, in order; the first `ended_` are reduced
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  std::vector<Place> places_;        // of the exchanges ended_ … started_, in turn
  std::vector<device::View> nodes_;  // of the sum in work; kept so that a step allocates nothing
  std::vector<Range> ranges_;
  std::vector<std::size_t> bytes_by_rank_;
};

}  // namespace cambium::optimizer
