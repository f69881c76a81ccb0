// config/checkpoint_config.hpp — section `checkpoint`: when one is written and which are kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/types.hpp"

namespace cambium::config {

struct CheckpointConfig {
  dim_t every_steps = 100;
  std::optional<double> every_minutes;
  dim_t keep_last = 3;        // at least 1
  dim_t keep_every = 0;       // steps that are multiples of it are never pruned; 0: none
  bool asynchronous = false;  // interval checkpoints are written beside training, from a copy

  bool operator==(const CheckpointConfig&) const = default;
};

}  // namespace cambium::config
