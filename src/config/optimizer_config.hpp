// config/optimizer_config.hpp — keys `optimizer` and `learning_rate` of a training phase.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/types.hpp"

namespace cambium::config {

enum class OptimizerKind { adamw };
enum class StateType { fp32 };

struct Betas {
  double first = 0.9;
  double second = 0.95;

  bool operator==(const Betas&) const = default;
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  Betas betas;  // in the file a list of two
  double eps = 1e-8;
  double weight_decay = 0.1;    // matrices only
  double clip_grad_norm = 1.0;  // 0: no clipping
  StateType state = StateType::fp32;
  bool shard = true;  // rows of the state over data ranks; free, the bits do not change

  bool operator==(const OptimizerConfig&) const = default;
};

// constant: peak after warm-up. linear, cosine: from peak to final at the phase's last step.
// wsd: peak until decay_steps before the phase's last step, then linear to final.
enum class LearningRateKind { constant, linear, cosine, wsd };

struct LearningRateConfig {
  LearningRateKind kind = LearningRateKind::constant;
  double peak = 1e-3;
  dim_t warmup_steps = 0;
  dim_t decay_steps = 0;  // wsd only
  double final = 0;       // not for constant

  bool operator==(const LearningRateConfig&) const = default;
};

}  // namespace cambium::config
