// data/sampler.hpp — which sample stands at a place of the training order: a pure function of
// (seed, step, index).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.hpp"

namespace cambium::data {

struct SampleId {
  dim_t source = 0;  // of the mixture
  dim_t sample = 0;  // of the source
  dim_t epoch = 0;   // of the source

  bool operator==(const SampleId&) const = default;
};

// Place p = (step - 1) * global_batch_size + index. One source: epoch p / n, sample Permutation(n,
// seed, epoch)(p % n). Several: each block of 65536 places gives source s a fixed quota by its
// weight (largest remainder, at least 1), the block's places are dealt by a permutation keyed by
// (seed, block), and a source walks its own epochs. No state: any place at any time.
class Sampler {
 public:
  // `stream` keeps samplers of one seed apart (0: the phase's main data).
  // Throws: Error(bad_input) when a source has no samples; Error(bug) for a weight that is not
  // positive.
  Sampler(std::uint64_t seed,
          dim_t global_batch_size,
          std::vector<dim_t> samples_of_source,
          std::vector<double> weights = {},
          std::uint64_t stream = 0);

  // step from 1, index in [0, global_batch_size).
  [[nodiscard]] SampleId at(dim_t step, dim_t index) const;

 private:
  [[nodiscard]] SampleId at_place_of(dim_t source, dim_t place) const;

  std::uint64_t seed_;
  dim_t global_batch_size_;
  std::vector<dim_t> samples_;
  std::vector<dim_t> first_;  // quota prefix sums of a block; empty for one source
};

}  // namespace cambium::data
