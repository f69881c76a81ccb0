// config/evaluate_config.hpp — a phase of kind `evaluate`: loss on text, or accuracy on labelled
// text. It updates nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/types.hpp"

namespace cambium::config {

enum class EvaluateTask { loss, accuracy };

struct EvaluatePhase {
  EvaluateTask task =
      EvaluateTask::loss;  // accuracy needs a phase of kind mtssl before it, whose labels it takes
  std::filesystem::path data;   // text for loss, JSON lines for accuracy
  dim_t batches = 0;            // of global_batch_size; 0: the whole file
  dim_t global_batch_size = 0;  // 0: micro_batch_size x logical data
  dim_t sequence_length = 0;

  bool operator==(const EvaluatePhase&) const = default;
};

}  // namespace cambium::config
