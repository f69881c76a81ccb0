// model/spec.hpp — what the network is: a value. Everything else (parameters, stages, buffers) is
// derived from it. Numbers that depend on sizes (attention scale, norm divisor, initial scale) are
// stored per layer, never recomputed, so that growth leaves old layers as they were (design.md
// §1.10).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/families.hpp"
#include "config/model_config.hpp"

namespace cambium::model {

using config::Activation;
using config::Biases;
using config::NormKind;

// Uids of one entity's parameters lie in [uid, uid + kUidsPerEntity).
inline constexpr std::uint64_t kUidsPerEntity = 16;

// How parameters born by growth are eased in (design.md §6). Zero for those of the first spec.
struct Birth {
  std::int64_t step = 0;
  std::int64_t warmup_steps = 0;
  double learning_rate_multiplier = 1;

  bool operator==(const Birth&) const = default;
};

enum class GateKind : std::uint8_t { vector, scalar };

// y = x + gate * B silu(A norm(x)) after a named module, with RMSNorm whatever the family; absent
// while the gate has never been updated.
struct InsertedBlock {
  std::uint64_t uid = 0;
  dim_t width = 0;
  GateKind gate = GateKind::vector;
  double norm_eps = 1e-5;
  dim_t norm_width = 0;
  double init_std = 0.02;
  bool born_closed = true;  // false: taken over open from another run
  Birth birth;

  bool operator==(const InsertedBlock&) const = default;
};

// The places of a decoder layer after which a block may stand. attention and mlp mean the residual
// stream behind them.
enum class LayerModule : std::uint8_t { attention_norm, attention, mlp_norm, mlp };
inline constexpr int kLayerModules = 4;

[[nodiscard]] const char* name_of(LayerModule module);

struct LayerSpec {
  std::uint64_t uid = 0;
  dim_t heads = 0;
  dim_t kv_heads = 0;
  dim_t head_width = 0;
  dim_t ffn = 0;
  NormKind norm = NormKind::rms;
  Activation activation = Activation::swiglu;
  Biases biases = Biases::none;
  bool has_rope = true;
  double attention_scale = 1;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  dim_t norm_width = 0;
  double init_std = 0.02;      // matrices
  double init_std_out = 0.02;  // projections into the stream; 0 for a layer born closed
  bool born_closed = false;    // its projections into the stream began as zeros by surgery
  Birth birth;
  std::vector<InsertedBlock> inserted[kLayerModules];

  bool operator==(const LayerSpec&) const = default;
};

struct Spec {
  std::string family = "llama";
  dim_t hidden = 0;
  dim_t vocabulary = 0;
  dim_t max_positions = 0;
  bool is_tied = true;
  NormKind norm = NormKind::rms;  // of the last norm; a layer has its own
  double norm_eps = 1e-5;
  dim_t norm_width = 0;
  double init_std = 0.02;
  std::uint64_t embedding_uid = 0;
  std::uint64_t positions_uid = 0;  // 0 without learned positions
  std::uint64_t norm_uid = 0;
  std::uint64_t head_uid = 0;        // 0 when tied
  std::uint64_t classifier_uid = 0;  // 0 without
  dim_t classes = 0;
  Birth classifier_birth;
  std::uint64_t next_uid = kUidsPerEntity;
  std::vector<LayerSpec> layers;
  std::vector<InsertedBlock> after_embedding;
  std::vector<InsertedBlock> after_norm;

  bool operator==(const Spec&) const = default;

  [[nodiscard]] std::uint64_t take_uid() {
    const std::uint64_t uid = next_uid;
    next_uid += kUidsPerEntity;
    return uid;
  }
};

// The spec that a campaign starts with. `vocabulary` is what `vocab_size: auto` came to.
[[nodiscard]] Spec make_spec(const config::ModelConfig& config, dim_t vocabulary);

// Adds (or replaces) the classification head of a semi-supervised phase.
void add_classifier(Spec& spec, dim_t classes, std::int64_t step);

// Modules after which a block may be inserted, in order of execution: embedding,
// layers.N.attention_norm, …, norm.
[[nodiscard]] std::vector<std::string> insertion_points(const Spec& spec);

// The list of blocks behind `module` ("layers.3.mlp", "layers.3", "embedding", "norm").
// Throws Error(usage) naming the nearest valid names.
[[nodiscard]] std::vector<InsertedBlock>& blocks_after(Spec& spec, const std::string& module);

[[nodiscard]] nlohmann::json to_json(const Spec& spec);
[[nodiscard]] Spec spec_from_json(const nlohmann::json& json);

}  // namespace cambium::model
