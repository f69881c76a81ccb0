// model/stages.hpp — which pipeline stage owns which layers. Pure; free of the numerical contract.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"
#include "model/spec.hpp"

namespace cambium::model {

// Virtual stage v owns layers [first[v], first[v+1]) and is chunk v / stages of stage v % stages.
// first.size() == stages * chunks + 1. With one chunk, virtual stages are the stages.
struct StageMap {
  std::vector<dim_t> first;
  int chunks = 1;  // of each stage

  [[nodiscard]] int stages() const {
    return (static_cast<int>(first.size()) - 1) / chunks;
  }

  [[nodiscard]] Range layers_of(int stage, int chunk) const {
    const auto v = static_cast<std::size_t>(chunk * stages() + stage);
    return {first[v], first[v + 1]};
  }

  // Layers of all chunks of a stage.
  [[nodiscard]] dim_t layer_count(int stage) const;

  // layer -1 is on the first virtual stage, layer L on the last.
  [[nodiscard]] int virtual_stage_of(dim_t layer) const;

  [[nodiscard]] int stage_of(dim_t layer) const {
    return virtual_stage_of(layer) % stages();
  }

  [[nodiscard]] int chunk_of(dim_t layer) const {
    return virtual_stage_of(layer) / stages();
  }

  bool operator==(const StageMap&) const = default;
};

// Multiply-adds of one token's forward pass through layer `i`, without the attention scores.
[[nodiscard]] double layer_cost(const Spec& spec, dim_t i);

// Contiguous virtual stages with the least largest cost (layers, plus the head on the last); ties
// put more on earlier ones. `layers_per_stage`, when not empty, is taken as it is, in the order of
// virtual stages. Throws Error(usage) when there are fewer layers than virtual stages, or the given
// list does not add up.
[[nodiscard]] StageMap plan_stages(const std::vector<double>& layer_costs,
                                   double head_cost,
                                   int stages,
                                   const std::vector<dim_t>& layers_per_stage = {},
                                   int chunks = 1);

[[nodiscard]] StageMap plan_stages(const Spec& spec,
                                   int stages,
                                   const std::vector<dim_t>& layers_per_stage = {},
                                   int chunks = 1);

}  // namespace cambium::model
