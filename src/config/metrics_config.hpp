// config/metrics_config.hpp — section `metrics`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace cambium::config {

struct MetricsConfig {
  dim_t timeline_step = 3;  // the step whose actions are traced for the report's timeline; 0: none

  bool operator==(const MetricsConfig&) const = default;
};

}  // namespace cambium::config
