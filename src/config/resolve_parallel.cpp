// SPDX-License-Identifier: Apache-2.0
#include "config/resolve_parallel.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "config/check_campaign.hpp"

namespace cambium::config {
namespace {

std::string size_text(int size) {
  return size == kAuto ? "auto" : std::to_string(size);
}

// The one kAuto of the physical mesh, from the number of ranks.
void fill_physical(ParallelConfig& p, int ranks, Problems& problems) {
  int known = 1;
  int* open = nullptr;
  const char* name = nullptr;
  const auto look = [&](int& size, const char* axis) {
    if (size == kAuto) {
      open = &size;
      name = axis;
    } else {
      known *= size;
    }
  };
  look(p.tensor, "tensor");
  look(p.pipeline, "pipeline");
  look(p.data, "data");
  known *= p.context;
  const std::string equation = fmt::format("tensor {} x pipeline {} x context {} x data {}",
                                           size_text(p.tensor),
                                           size_text(p.pipeline),
                                           p.context,
                                           size_text(p.data));
  if (open == nullptr && known != ranks) {
    problems.push_back({"parallel",
                        fmt::format("{} = {} ranks, got {}; start {} ranks or make one size auto",
                                    equation,
                                    known,
                                    ranks,
                                    known)});
  } else if (open != nullptr && ranks % known != 0) {
    problems.push_back({fmt::format("parallel.{}", name),
                        fmt::format("{} ranks = {} has no whole {}; start a multiple of {} ranks",
                                    ranks,
                                    equation,
                                    name,
                                    known)});
  } else if (open != nullptr) {
    *open = ranks / known;
  }
}

}  // namespace

ParallelConfig resolve_parallel(const Campaign& campaign, int ranks) {
  CAMBIUM_CHECK(ranks >= 1, "a run without ranks");
  ParallelConfig p = campaign.parallel;
  Problems problems;
  if (ranks == 1) {
    // The logical mesh is the file's: that of its own physical sizes, so that one process gives the
    // bits of many.
    p.logical = default_logical_mesh(campaign, p.tensor, p.data);
    p.tensor = p.pipeline = p.data = p.context = p.expert = 1;
    p.stages.clear();
  } else {
    fill_physical(p, ranks, problems);
    throw_problems(campaign, problems);
    p.logical = default_logical_mesh(campaign, p.tensor, p.data);
  }
  if (p.pipeline == 1) {  // nothing to interleave: the same bits, one chunk
    p.virtual_stages = 1;
    if (p.schedule == ScheduleKind::interleaved) {
      p.schedule = ScheduleKind::one_f_one_b;
      p.stages.clear();
    }
  }
  check_logical(campaign, p.logical, p, problems);
  const dim_t layers = campaign.model.num_hidden_layers;
  if (layers > 0 && p.pipeline > layers) {
    problems.push_back(
        {"parallel.pipeline",
         fmt::format(
             "{} stages, expected at most model.num_hidden_layers {}", p.pipeline, layers)});
  } else if (layers > 0 && static_cast<dim_t>(p.pipeline) * p.virtual_stages > layers) {
    problems.push_back(
        {"parallel.virtual_stages",
         fmt::format("{} stages of {} chunks for model.num_hidden_layers {}, expected at most {}",
                     p.pipeline,
                     p.virtual_stages,
                     layers,
                     layers / p.pipeline)});
  }
  throw_problems(campaign, problems);
  return p;
}

}  // namespace cambium::config
