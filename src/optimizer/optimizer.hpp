// optimizer/optimizer.hpp — norm, clip, AdamW on owned rows, all-gather, repack.
// Global norm: fp64 squares along a grain ascending, then the tree over a shard's grains, the tree
// over logical shards, and parameters ascending by uid (design.md §1.7). A mirror of a tied table
// is not counted. Parameters still in their birth warm-up are a clip group of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/optimizer_config.hpp"
#include "optimizer/norm_reduction.hpp"
#include "params/param_store.hpp"

namespace cambium::optimizer {

class Optimizer {
 public:
  Optimizer(params::ParamStore& store,
            device::Stream& stream,
            comm::MeshGroups& groups,
            GradientSync& sync);

  // Collective over: data, tensor, pipeline. Every rank returns with the same tail, bit for bit.
  void reduce_norms(StepTail& tail);

  // One update of every parameter, then values on all data ranks and fresh panels. Collective over:
  // data.
  void update(const config::OptimizerConfig& config, double learning_rate, const StepTail& tail);

 private:
  void gather_values();

  params::ParamStore& store_;
  device::Stream& stream_;
  comm::MeshGroups& groups_;
  GradientSync& sync_;
  NormReduction norms_;
  std::vector<std::vector<std::size_t>> gather_bytes_;  // by bucket, by data rank
};

}  // namespace cambium::optimizer
