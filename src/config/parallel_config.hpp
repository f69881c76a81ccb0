// config/parallel_config.hpp — section `parallel`: the physical mesh, the logical mesh, the
// schedule. Contract (decides numbers): logical, micro_batch_size, reduction, wire. The rest is
// free (design.md §1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/recompute.hpp"
#include "base/types.hpp"

namespace cambium::config {

enum class ScheduleKind { one_f_one_b, gpipe, interleaved };  // in the file: 1f1b, …
enum class Reduction { exact, fast };
enum class Wire { fp32 };

// A size that resolve_parallel fills in.
inline constexpr int kAuto = 0;

struct LogicalMeshConfig {
  int tensor = kAuto;
  int data = kAuto;

  bool operator==(const LogicalMeshConfig&) const = default;
};

struct ParallelConfig {
  int tensor = 1;  // kAuto for at most one of the three
  int pipeline = 1;
  int data = kAuto;
  int context = 1;
  int expert = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int virtual_stages = 1;  // chunks of layers per stage; more than 1 with interleaved only
  dim_t micro_batch_size = 1;
  bool sequence_parallel = true;
  Recompute recompute = Recompute::none;
  bool overlap = true;  // exchange gradients between data ranks beside the backward
  Reduction reduction = Reduction::exact;
  Wire wire = Wire::fp32;
  std::vector<dim_t> stages;  // layers of each virtual stage; empty: as even as possible
  LogicalMeshConfig logical;

  [[nodiscard]] int ranks() const {
    return tensor * pipeline * context * data;
  }

  bool operator==(const ParallelConfig&) const = default;
};

}  // namespace cambium::config
