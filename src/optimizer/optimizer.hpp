// optimizer/optimizer.hpp — norm, clip, AdamW on owned rows, all-gather, repack.
// Global norm: fp64 squares along a grain ascending, then the tree over a shard's grains, the tree
// over logical shards, and parameters ascending by uid (design.md §1.7). A mirror of a tied table
// is not counted. Parameters still in their birth warm-up are a clip group of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/optimizer_config.hpp"
#include "optimizer/gradient_sync.hpp"
#include "params/param_store.hpp"

namespace cambium::optimizer {

// What rides on the step's last reduction, so that every rank knows it.
struct StepTail {
  std::int64_t flags = 0;          // bitwise or over all ranks
  std::vector<double> last_stage;  // values that the last stage knows; same length on every rank

  // Filled by reduce_norms():
  double norm = 0;       // over all parameters
  double norm_kept = 0;  // without those in birth warm-up
  double norm_new = 0;

  [[nodiscard]] bool is_finite() const;
};

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
  [[nodiscard]] bool is_warming(const params::Bucket& bucket) const;
  void gather_values();
  std::vector<double> gather_grain_squares(std::int64_t& flags);
  std::vector<double> sum_parts(const std::vector<double>& squares) const;

  params::ParamStore& store_;
  device::Stream& stream_;
  comm::MeshGroups& groups_;
  GradientSync& sync_;
  std::vector<dim_t> first_grain_;  // of each bucket, in the concatenation of this rank's buckets
  dim_t grains_ = 0;
  std::vector<double> squares_;
  std::vector<double> received_;
};

}  // namespace cambium::optimizer
