// optimizer/gradient_sync.hpp — from micro-batch gradients to the gradient of the step, in the
// contract's order: micro-batches ascending within a logical data shard (the layers do that), token
// sums of replicated parameters by the tree over logical tensor shards, then everything by the tree
// over logical data shards (design.md §1, rules 4, 5, 8, 9).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/tree_sum.hpp"
#include "comm/world.hpp"
#include "params/param_store.hpp"

namespace cambium::optimizer {

class GradientSync {
 public:
  GradientSync(params::ParamStore& store,
               device::Stream& stream,
               comm::MeshGroups& groups,
               comm::Reduction reduction);

  // Forgets the last step's gradients.
  void begin_step();

  // The i-th local data shard's last micro-batch is done in a chunk of this stage. Collective over:
  // tensor.
  void finish_shard(dim_t i, int chunk);

  // Leaves the step's gradient in lane 0 of every bucket: owned elements when the optimizer is
  // sharded, else all. Collective over: data, and pipeline for a tied table. Bytes: a ring's, per
  // bucket.
  void reduce();

  // Lane 0's reduced gradient (1, elements); only held() is meaningful.
  [[nodiscard]] device::View gradient(params::Bucket& bucket) const;

 private:
  void open_shard(dim_t i, params::Bucket& bucket);
  [[nodiscard]] bool is_in(const params::Bucket& bucket, int chunk) const;
  void finish_lane(params::Bucket& bucket, int lane, dim_t i);
  void reduce_leaves(params::Bucket& bucket, int lane);
  void reduce_lane(params::Bucket& bucket, int lane);
  void join_tied();

  params::ParamStore& store_;
  device::Stream& stream_;
  comm::MeshGroups& groups_;
  comm::Reduction reduction_;
  comm::ShardSum data_sum_;
  comm::ShardSum tensor_sum_;
  ResidentSum resident_;
  device::Buffer workspace_;
  device::Buffer leaf_total_;
  device::Buffer tied_;
  std::vector<device::View> nodes_;  // of the sum in work; kept so that a step allocates nothing
  std::vector<Range> ranges_;
};

}  // namespace cambium::optimizer
