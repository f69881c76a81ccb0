// config/check_meshes.cpp — batches and heads over the logical mesh, and the logical over the
// physical one.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <variant>

#include "config/check_campaign.hpp"
#include "config/nearest.hpp"
#include "config/words.hpp"

namespace cambium::config {
namespace {

// The smallest multiple of `ranks` that is at least the largest power of two <= 4 that divides n.
int default_shards(dim_t n, int ranks) {
  int base = 1;
  while (base < 4 && n > 0 && n % (2 * base) == 0) {
    base *= 2;
  }
  return static_cast<int>(ceil_div(base, ranks)) * ranks;
}

// What divides in every phase: the greatest common divisor of global_batch_size / micro_batch_size.
dim_t common_micro_batches(const Campaign& c) {
  dim_t common = 0;
  for (const Phase& phase : c.phases) {
    const dim_t global = global_batch_size(phase);
    if (global > 0 && c.parallel.micro_batch_size > 0 &&
        global % c.parallel.micro_batch_size == 0) {
      common = std::gcd(common, global / c.parallel.micro_batch_size);
    }
  }
  return common;
}

// The equation of one phase: global_batch_size = micro_batch_size x accumulation x logical data.
void check_batch(const Campaign& c, std::size_t index, int data, Problems& problems) {
  const dim_t global = global_batch_size(c.phases[index]);
  const dim_t micro = c.parallel.micro_batch_size;
  if (global <= 0 || micro <= 0 || data <= 0 || global % (micro * data) == 0) {
    return;
  }
  const dim_t unit = micro * data;
  const dim_t below = global / unit * unit;
  std::vector<dim_t> micros;
  for (const dim_t d : divisors(global)) {
    if (global % (d * data) == 0) {
      micros.push_back(d);
    }
  }
  const std::string other =
      micros.empty() ? "" : fmt::format(", or micro_batch_size one of {}", list_of(micros));
  problems.push_back({phase_path(c, index) + ".global_batch_size",
                      fmt::format("global_batch_size {} = micro_batch_size {} x accumulation x "
                                  "logical data {} has no whole "
                                  "accumulation; nearest valid global_batch_size {}{}{}",
                                  global,
                                  micro,
                                  data,
                                  below > 0 ? fmt::format("{} or ", below) : "",
                                  below + unit,
                                  other)});
}

// A learned threshold takes the labelled batch in two halves, inner and meta, in turn: each is
// whole micro-batches of every data shard.
void check_halves(const Campaign& c, std::size_t index, int data, Problems& problems) {
  const auto* phase = std::get_if<MtsslPhase>(&c.phases[index].settings);
  const dim_t unit = c.parallel.micro_batch_size * data;
  if (phase == nullptr || phase->threshold.kind != ThresholdKind::learned ||
      phase->global_batch_size >= 2 * unit || phase->global_batch_size <= 0) {
    return;
  }
  problems.push_back(
      {phase_path(c, index) + ".global_batch_size",
       fmt::format(
           "{} labelled texts are one micro-batch a data shard, expected at least {} = 2 x "
           "micro_batch_size {} x logical data {} for a learned threshold, whose halves alternate "
           "as inner and meta batch",
           phase->global_batch_size,
           2 * unit,
           c.parallel.micro_batch_size,
           data)});
}

void check_physical(std::string_view axis, int physical, int logical, Problems& problems) {
  if (physical <= 0 || logical <= 0 || logical % physical == 0) {
    return;
  }
  problems.push_back({fmt::format("parallel.{}", axis),
                      fmt::format("{} ranks do not divide the logical size {}; use one of {}",
                                  physical,
                                  logical,
                                  list_of(divisors(logical)))});
}

// Layers that the file's growth phases add.
dim_t layers_to_come(const Campaign& c) {
  dim_t count = 0;
  for (const Phase& phase : c.phases) {
    if (const auto* grow = std::get_if<GrowPhase>(&phase.settings)) {
      for (const GrowOperation& operation : grow->operations) {
        if (const auto* layers = std::get_if<InsertLayers>(&operation)) {
          count += layers->count;
        }
      }
    }
  }
  return count;
}

void check_stages(const Campaign& c, Problems& problems) {
  const ParallelConfig& p = c.parallel;
  const dim_t layers = c.model.num_hidden_layers;
  // A campaign that has grown may be restarted on more stages than it began with; what is too many
  // now is known at the start (resolve_parallel), when the model that runs is known.
  const dim_t most = layers + layers_to_come(c);
  if (p.pipeline > 0 && layers > 0 && p.pipeline > most) {
    problems.push_back({"parallel.pipeline",
                        fmt::format("{} stages, expected at most model.num_hidden_layers {}{}",
                                    p.pipeline,
                                    layers,
                                    most > layers ? fmt::format(" + {} inserted", most - layers)
                                                  : std::string())});
  }
  const bool is_interleaved = p.schedule == ScheduleKind::interleaved;
  if (is_interleaved != (p.virtual_stages > 1)) {
    problems.push_back(
        {"parallel.virtual_stages",
         fmt::format("{} with schedule {}, expected {}",
                     p.virtual_stages,
                     word_of(p.schedule),
                     is_interleaved ? "at least 2" : "1, or schedule: interleaved")});
  }
  if (p.pipeline > 0 && layers > 0 && p.pipeline <= most && p.virtual_stages > 1 &&
      p.pipeline * p.virtual_stages > most) {
    problems.push_back({"parallel.virtual_stages",
                        fmt::format("{} stages of {} chunks for {} layers, expected at most {}",
                                    p.pipeline,
                                    p.virtual_stages,
                                    most,
                                    most / p.pipeline)});
  }
  if (p.stages.empty()) {
    return;
  }
  const dim_t entries = static_cast<dim_t>(p.pipeline) * p.virtual_stages;
  if (p.pipeline > 0 && static_cast<dim_t>(p.stages.size()) != entries) {
    problems.push_back({"parallel.stages",
                        fmt::format("expected one entry for each of {} {}, got {}",
                                    entries,
                                    p.virtual_stages > 1 ? "virtual stages" : "stages",
                                    p.stages.size())});
  }
  const dim_t sum = std::accumulate(p.stages.begin(), p.stages.end(), dim_t{0});
  if (layers > 0 && sum != layers) {
    problems.push_back(
        {"parallel.stages",
         fmt::format("the stages hold {} = {} layers, expected model.num_hidden_layers {}",
                     fmt::join(p.stages, " + "),
                     sum,
                     layers)});
  }
}

}  // namespace

LogicalMeshConfig default_logical_mesh(const Campaign& campaign, int tensor, int data) {
  LogicalMeshConfig mesh = campaign.parallel.logical;
  if (mesh.tensor == kAuto) {
    mesh.tensor = default_shards(campaign.model.num_key_value_heads, std::max(tensor, 1));
  }
  if (mesh.data == kAuto) {
    mesh.data = default_shards(common_micro_batches(campaign), std::max(data, 1));
  }
  return mesh;
}

void check_logical(const Campaign& campaign,
                   const LogicalMeshConfig& logical,
                   const ParallelConfig& physical,
                   Problems& problems) {
  check_physical("tensor", physical.tensor, logical.tensor, problems);
  check_physical("data", physical.data, logical.data, problems);
  const dim_t kv = campaign.model.num_key_value_heads;
  if (kv > 0 && logical.tensor > 0 && kv % logical.tensor != 0) {
    const bool is_given = campaign.parallel.logical.tensor != kAuto;
    problems.push_back(
        {is_given ? "parallel.logical.tensor" : "parallel.tensor",
         fmt::format("{} logical tensor shards do not divide model.num_key_value_heads {}; "
                     "valid sizes: {}",
                     logical.tensor,
                     kv,
                     list_of(divisors(kv)))});
  }
  for (std::size_t i = 0; i < campaign.phases.size(); ++i) {
    check_batch(campaign, i, logical.data, problems);
    check_halves(campaign, i, logical.data, problems);
  }
}

void check_meshes(const Campaign& campaign, Problems& problems) {
  const ParallelConfig& p = campaign.parallel;
  std::vector<std::string> automatic;
  for (const auto& [name, size] :
       {std::pair{"tensor", p.tensor}, {"pipeline", p.pipeline}, {"data", p.data}}) {
    if (size == kAuto) {
      automatic.emplace_back(name);
    }
  }
  if (automatic.size() > 1) {
    problems.push_back(
        {"parallel", fmt::format("{} are auto, expected at most one", join(automatic, " and "))});
  }
  check_stages(campaign, problems);
  check_logical(campaign, default_logical_mesh(campaign, p.tensor, p.data), p, problems);
}

}  // namespace cambium::config
