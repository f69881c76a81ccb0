// config/pretrain_config.hpp — a phase of kind `pretrain`: next-token training on text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/types.hpp"
#include "config/optimizer_config.hpp"

namespace cambium::config {

struct DataSource {
  std::filesystem::path path;
  double weight = 1;

  bool operator==(const DataSource&) const = default;
};

struct ValidationConfig {
  std::filesystem::path path;
  dim_t every_steps = 0;  // 0: only after the phase's last step
  dim_t batches = 0;      // of the phase's global_batch_size; 0: the whole file

  bool operator==(const ValidationConfig&) const = default;
};

struct PretrainPhase {
  dim_t steps = 0;
  dim_t global_batch_size = 0;  // samples of an update
  dim_t sequence_length = 0;
  std::vector<DataSource> data;
  std::optional<ValidationConfig> validation;
  OptimizerConfig optimizer;
  LearningRateConfig learning_rate;

  bool operator==(const PretrainPhase&) const = default;
};

}  // namespace cambium::config
