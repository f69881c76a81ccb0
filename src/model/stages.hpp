// model/stages.hpp — which pipeline stage owns which layers. Pure; free of the numerical contract.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/types.hpp"
#include "model/spec.hpp"

namespace cambium::model {

// Stage s owns layers [first[s], first[s+1]). first.size() == stages + 1.
struct StageMap {
  std::vector<dim_t> first;

  [[nodiscard]] int stages() const {
    return static_cast<int>(first.size()) - 1;
  }

  [[nodiscard]] Range layers_of(int stage) const {
    return {first[static_cast<std::size_t>(stage)], first[static_cast<std::size_t>(stage) + 1]};
  }

  // layer -1 is on the first stage, layer L on the last.
  [[nodiscard]] int stage_of(dim_t layer) const;

  bool operator==(const StageMap&) const = default;
};

// Multiply-adds of one token's forward pass through layer `i`, without the attention scores.
[[nodiscard]] double layer_cost(const Spec& spec, dim_t i);

// Contiguous stages with the least largest cost (layers, plus the head on the last); ties put more
// on earlier stages. `layers_per_stage`, when not empty, is taken as it is. Throws Error(usage)
// when there are fewer layers than stages, or the given list does not add up.
[[nodiscard]] StageMap plan_stages(const std::vector<double>& layer_costs,
                                   double head_cost,
                                   int stages,
                                   const std::vector<dim_t>& layers_per_stage = {});

[[nodiscard]] StageMap plan_stages(const Spec& spec,
                                   int stages,
                                   const std::vector<dim_t>& layers_per_stage = {});

}  // namespace cambium::model
