// config/grow_config.hpp — a phase of kind `grow`: a list of exact surgeries, applied in order, as
// one transaction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.hpp"

namespace cambium::config {

enum class GateKind { vector, scalar };

// A block x + gate * B(A(norm(x))) behind a named module, gate zero: operation
// `insert_gated_residual`.
struct InsertGatedResidual {
  std::string after;  // embedding, layers.N.{attention_norm, attention, mlp_norm, mlp}, norm
  dim_t width = 0;    // 0: hidden_size
  GateKind gate = GateKind::vector;
  double learning_rate_multiplier = 1;  // of the new segments
  dim_t warmup_steps = 20;              // of the new segments

  bool operator==(const InsertGatedResidual&) const = default;
};

// Whole decoder layers whose projections into the stream are zero: operation `insert_layers`.
struct InsertLayers {
  dim_t after = 0;  // 0-based index of the layer they follow; -1: at the front
  dim_t count = 1;
  double learning_rate_multiplier = 1;
  dim_t warmup_steps = 20;

  bool operator==(const InsertLayers&) const = default;
};

using GrowOperation = std::variant<InsertGatedResidual, InsertLayers>;

// The operation's key in the file.
[[nodiscard]] std::string_view operation_name(const GrowOperation& operation);

enum class OnFailure { rollback, stop };

struct VerifyConfig {
  dim_t batches = 2;  // probe batches that must give the same bits before and after

  bool operator==(const VerifyConfig&) const = default;
};

struct GrowPhase {
  std::vector<GrowOperation> operations;
  VerifyConfig verify;
  bool rebalance = true;                       // stages are cut anew
  OnFailure on_failure = OnFailure::rollback;  // rollback: go on with the old model; stop: end the
                                               // job with the cause's code

  bool operator==(const GrowPhase&) const = default;
};

}  // namespace cambium::config
