// metrics/run_files.hpp — small JSON files of a run directory that are written whole:
// timeline.json, ranks.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "metrics/fields.hpp"

namespace cambium::metrics {

struct TracedAction {
  std::string kind;  // schedule::name_of
  dim_t micro_batch = 0;
  double begin_us = 0;  // since the start of the step
  double end_us = 0;
  int chunk = 0;  // of the stage's chunks of layers
};

struct RankTimeline {
  int rank = 0;
  int stage = 0;
  int tensor = 0;
  int data = 0;
  std::vector<TracedAction> actions;
};

// RUN/timeline.json: the actions of one traced step on every rank. Throws Error(storage).
void write_timeline(const std::filesystem::path& run,
                    dim_t step,
                    const std::vector<RankTimeline>& ranks);

// RUN/ranks.json: one object per rank: rank, host, parameter_bytes, product_flops, bytes_sent, ….
// Throws Error(storage).
void write_ranks(const std::filesystem::path& run, const std::vector<Fields>& ranks);

}  // namespace cambium::metrics
