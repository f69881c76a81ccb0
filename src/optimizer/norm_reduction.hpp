// optimizer/norm_reduction.hpp — the gradients' global norm, and what rides on its messages.
// Order: fp64 squares along a grain ascending, then the tree over a shard's grains, the tree over
// logical tensor shards, and parameters ascending by uid (design.md §1.7). A mirror of a tied table
// is not counted. Everything that does not change from step to step is laid out once, so that a
// step allocates nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "optimizer/gradient_sync.hpp"
#include "params/param_store.hpp"

namespace cambium::optimizer {

// What rides on the step's last reduction, so that every rank knows it.
struct StepTail {
  std::int64_t flags = 0;          // bitwise or over all ranks
  std::vector<double> last_stage;  // values that the last stage knows; same length on every rank

  // Filled by NormReduction:
  double norm = 0;       // over all parameters
  double norm_kept = 0;  // without those in birth warm-up
  double norm_new = 0;

  [[nodiscard]] bool is_finite() const;
};

// Still in its birth warm-up: such parameters are a clip group of their own.
[[nodiscard]] bool is_warming(const params::Bucket& bucket);

class NormReduction {
 public:
  NormReduction(params::ParamStore& store,
                device::Stream& stream,
                comm::MeshGroups& groups,
                GradientSync& sync);

  // Collective over: data, tensor, pipeline. Every rank returns with the same tail, bit for bit.
  void reduce(StepTail& tail);

 private:
  void lay_grains();
  void lay_tensor_message();
  void lay_pipeline_message();
  void square_grains();
  void exchange_over_data(std::int64_t& flags);
  void exchange_over_tensor(std::int64_t& flags);
  void exchange_over_stages(StepTail& tail);

  // Grains of one part that this rank squares; they land in own_ from `at` on.
  struct GrainRun {
    params::Bucket* bucket;
    Range elements;
    dim_t grain;
    Range at;
  };

  // received_[from …] becomes squares_[to …].
  struct Move {
    dim_t from;
    dim_t to;
    dim_t count;
  };

  // One parameter on this stage: where its values stand in the tensor ranks' message, by logical
  // shard.
  struct Parameter {
    const params::Bucket* bucket;
    std::uint64_t uid;
    std::vector<dim_t> at;
  };

  // One parameter of the whole network: which stage tells its sum, and as which.
  struct Place {
    std::uint64_t uid;
    std::size_t stage;
    std::size_t index;
  };

  params::ParamStore& store_;
  device::Stream& stream_;
  comm::MeshGroups& groups_;
  GradientSync& sync_;
  bool is_sharded_ = true;

  std::vector<GrainRun> runs_;
  std::vector<Range> parts_;  // each part's grains within squares_
  std::vector<double> own_;   // squares of the grains of runs_, then the flags
  std::vector<double> squares_;
  std::vector<double> received_;
  std::vector<std::size_t> data_bytes_;
  std::vector<Move> moves_;
  std::vector<dim_t> data_flags_;

  std::vector<double> part_sums_;  // by part, then the flags
  std::vector<double> tensor_received_;
  std::vector<std::size_t> tensor_bytes_;
  std::vector<dim_t> tensor_flags_;
  std::vector<Parameter> parameters_;
  std::vector<double> column_;  // one parameter's values by shard

  std::vector<std::size_t> stage_parameters_;  // how many each stage tells
  std::vector<Place> by_uid_;
  std::vector<double> message_;
  std::vector<double> stages_received_;
  std::vector<std::size_t> stage_bytes_;
  std::vector<std::size_t> stage_begin_;
};

}  // namespace cambium::optimizer
