// SPDX-License-Identifier: Apache-2.0
#include "model/stages.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace cambium::model {
namespace {

double block_cost(const std::vector<InsertedBlock>& blocks, dim_t hidden) {
  double cost = 0;
  for (const InsertedBlock& b : blocks) {
    cost += 2.0 * static_cast<double>(b.width) * static_cast<double>(hidden);
  }
  return cost;
}

}  // namespace

int StageMap::virtual_stage_of(dim_t layer) const {
  const dim_t count = first.back();
  const dim_t i = std::clamp<dim_t>(layer, 0, count - 1);
  int stage = 0;
  while (first[static_cast<std::size_t>(stage) + 1] <= i) {
    ++stage;
  }
  return stage;
}

dim_t StageMap::layer_count(int stage) const {
  dim_t count = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    count += layers_of(stage, chunk).size();
  }
  return count;
}

double layer_cost(const Spec& spec, dim_t i) {
  const LayerSpec& l = spec.layers[static_cast<std::size_t>(i)];
  const auto d = static_cast<double>(spec.hidden);
  double cost =
      d * static_cast<double>(l.head_width) * static_cast<double>(2 * l.heads + 2 * l.kv_heads);
  cost += (l.activation == Activation::swiglu ? 3 : 2) * d * static_cast<double>(l.ffn);
  for (const auto& blocks : l.inserted) {
    cost += block_cost(blocks, spec.hidden);
  }
  return cost;
}

StageMap plan_stages(const Spec& spec,
                     int stages,
                     const std::vector<dim_t>& layers_per_stage,
                     int chunks) {
  std::vector<double> costs;
  for (dim_t i = 0; i < static_cast<dim_t>(spec.layers.size()); ++i) {
    costs.push_back(layer_cost(spec, i));
  }
  const double head = static_cast<double>(spec.vocabulary) * static_cast<double>(spec.hidden);
  return plan_stages(costs, head, stages, layers_per_stage, chunks);
}

StageMap plan_stages(const std::vector<double>& layer_costs,
                     double head,
                     int stages_of_ranks,
                     const std::vector<dim_t>& layers_per_stage,
                     int chunks) {
  const auto count = static_cast<dim_t>(layer_costs.size());
  const int stages = stages_of_ranks * chunks;
  if (stages > count) {
    const std::string each = chunks > 1 ? fmt::format(" of {} chunks", chunks) : "";
    throw Error(Code::usage,
                fmt::format("parallel.pipeline: {} stages{} for {} layers; use at most {}",
                            stages_of_ranks,
                            each,
                            count,
                            count / chunks));
  }
  StageMap map;
  map.chunks = chunks;
  if (!layers_per_stage.empty()) {
    const dim_t total = std::accumulate(layers_per_stage.begin(), layers_per_stage.end(), dim_t{0});
    const bool has_empty = std::any_of(
        layers_per_stage.begin(), layers_per_stage.end(), [](dim_t n) { return n < 1; });
    if (static_cast<int>(layers_per_stage.size()) != stages || total != count || has_empty) {
      throw Error(
          Code::usage,
          fmt::format(
              "parallel.stages: [{}] does not cut {} layers into {} {} of at least one layer",
              fmt::join(layers_per_stage, ", "),
              count,
              stages,
              chunks > 1 ? "virtual stages" : "stages"));
    }
    map.first.push_back(0);
    for (const dim_t n : layers_per_stage) {
      map.first.push_back(map.first.back() + n);
    }
    return map;
  }
  std::vector<double> prefix(1, 0);
  for (const double cost : layer_costs) {
    prefix.push_back(prefix.back() + cost);
  }
  // best[s][n]: least largest cost of the first n layers on s + 1 stages; cut[s][n]: where the last
  // of them begins.
  const auto n_layers = static_cast<std::size_t>(count);
  const auto n_stages = static_cast<std::size_t>(stages);
  std::vector<std::vector<double>> best(
      n_stages, std::vector<double>(n_layers + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> cut(n_stages, std::vector<std::size_t>(n_layers + 1, 0));
  for (std::size_t s = 0; s < n_stages; ++s) {
    const double extra = s + 1 == n_stages ? head : 0;
    for (std::size_t n = s + 1; n <= n_layers; ++n) {
      if (s == 0) {
        best[0][n] = prefix[n] + extra;
        continue;
      }
      for (std::size_t c = s; c < n; ++c) {
        const double cost = std::max(best[s - 1][c], prefix[n] - prefix[c] + extra);
        if (cost <= best[s][n]) {  // <=: the later cut, so more on earlier stages
          best[s][n] = cost;
          cut[s][n] = c;
        }
      }
    }
  }
  map.first.assign(n_stages + 1, 0);
  map.first[n_stages] = count;
  std::size_t n = n_layers;
  for (std::size_t s = n_stages; s-- > 1;) {
    n = cut[s][n];
    map.first[s] = static_cast<dim_t>(n);
  }
  return map;
}

}  // namespace cambium::model
