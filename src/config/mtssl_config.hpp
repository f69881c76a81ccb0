// config/mtssl_config.hpp — a phase of kind `mtssl`: semi-supervised classification with a learned
// threshold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/pretrain_config.hpp"

namespace cambium::config {

enum class ThresholdKind { learned, fixed, off };

struct ThresholdConfig {
  ThresholdKind kind = ThresholdKind::learned;  // off: the supervised control
  double init = 0.7;                            // a probability; stored as its logit in fp64
  double learning_rate = 1e-2;                  // of the logit
  double temperature = 0.3;                     // of the soft mask

  bool operator==(const ThresholdConfig&) const = default;
};

struct StrongView {
  double mask_probability = 0.15;  // of a byte to become the mask id

  bool operator==(const StrongView&) const = default;
};

struct MtsslPhase {
  dim_t steps = 0;
  std::filesystem::path labelled;  // JSON lines with text and label
  // JSON lines with text (a label is not looked at). None, or the file of `labelled`: what
  // labelled_per_class leaves of it.
  std::optional<std::filesystem::path> unlabelled;
  ValidationConfig validation;  // JSON lines with text and label, held out
  // The subset of labels in use: a list, or the first `intents` names in sorted order, or (both
  // absent) all of them.
  std::vector<std::string> labels;
  dim_t intents = 0;             // 0: not given
  dim_t labelled_per_class = 0;  // 0: every labelled text
  dim_t global_batch_size = 0;   // labelled texts of an update
  dim_t unlabelled_ratio = 1;    // unlabelled texts of an update for each labelled one
  dim_t sequence_length = 0;     // T: bytes of a text that are seen
  StrongView strong;
  ThresholdConfig threshold;
  double unlabelled_weight = 1.0;  // lambda
  OptimizerConfig optimizer;
  LearningRateConfig learning_rate;

  bool operator==(const MtsslPhase&) const = default;
};

}  // namespace cambium::config
