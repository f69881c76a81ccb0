// config/fields.hpp — every key of a campaign file, once: reading, writing and the hints walk these
// lists. A visitor has value(key, member, rule), section(key, member), refused(key, why), and for
// the model's keys skips_model_keys, starts_family and has_key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "config/campaign.hpp"
#include "config/families.hpp"
#include "config/reader.hpp"

namespace cambium::config {

struct Rule {
  Bounds bounds{};
  bool required = false;
  std::string_view automatic{};  // the word for kAuto or an absent optional
  bool seconds = false;          // h:mm:ss is allowed
};

inline constexpr Bounds kPositive{.low = 1};
inline constexpr Bounds kNotNegative{.low = 0};
inline constexpr Bounds kAboveZero{.low = 0, .low_open = true};
inline constexpr Bounds kBelowOne{.low = 0, .high = 1, .high_open = true};
inline constexpr Bounds kInside{.low = 0, .high = 1, .low_open = true, .high_open = true};
inline constexpr Bounds kRanks{.low = 1, .high = 1 << 20};
inline constexpr Rule kRequiredCount{.bounds = kPositive, .required = true};

template <typename V>
void fields(V& v, OnNonfinite& c) {
  v.value("skip_limit", c.skip_limit, {.bounds = kNotNegative});
}

template <typename V>
void fields(V& v, RunConfig& c) {
  v.value("name", c.name, {.required = true});
  v.value("directory", c.directory, {});
  v.value("seed", c.seed, {});
  v.value("precision", c.precision, {});
  v.value("profile", c.profile, {});
  v.value("device", c.device, {});
  v.value("isa", c.isa, {});
  v.value("threads", c.threads, {.bounds = {.low = 0, .high = 4096}});
  v.value("resume", c.resume, {});
  v.value("watchdog_seconds", c.watchdog_seconds, {.bounds = kAboveZero, .seconds = true});
  v.section("on_nonfinite", c.on_nonfinite);
}

// Why a family does not have a key that another one has.
[[nodiscard]] std::string missing_key_text(const FamilyTraits& family, std::string_view key);

template <typename V>
void fields(V& v, ModelConfig& c) {
  v.value("from", c.from, {});
  if (v.skips_model_keys(c)) {
    return;
  }
  v.value("family", c.family, {});
  v.starts_family(c);
  const FamilyTraits& family = traits_of(c.family);
  // A key of some families only: the others refuse it by name.
  const auto value_where = [&](bool has, std::string_view key, auto& member, const Rule& rule) {
    if (v.has_key(has)) {
      v.value(key, member, rule);
    } else {
      v.refused(key, missing_key_text(family, key));
    }
  };
  v.value("hidden_size", c.hidden_size, kRequiredCount);
  v.value("intermediate_size",
          c.intermediate_size,
          {.bounds = kPositive, .required = family.ffn_multiple == 0});
  v.value("num_hidden_layers", c.num_hidden_layers, kRequiredCount);
  v.value("num_attention_heads", c.num_attention_heads, kRequiredCount);
  value_where(family.has_grouped_heads,
              "num_key_value_heads",
              c.num_key_value_heads,
              {.bounds = kPositive});
  value_where(
      family.has_head_dim, "head_dim", c.head_dim, {.bounds = kPositive, .automatic = "auto"});
  v.value("max_position_embeddings", c.max_position_embeddings, {.bounds = kPositive});
  v.value("vocab_size", c.vocab_size, {.bounds = kPositive, .automatic = "auto"});
  v.value("tie_word_embeddings", c.tie_word_embeddings, {});
  value_where(family.norm == NormKind::rms, "rms_norm_eps", c.rms_norm_eps, {.bounds = kAboveZero});
  value_where(family.norm == NormKind::layer,
              "layer_norm_epsilon",
              c.layer_norm_epsilon,
              {.bounds = kAboveZero});
  value_where(
      family.positions == Positions::rotary, "rope_theta", c.rope_theta, {.bounds = kAboveZero});
  v.value("initializer_range", c.initializer_range, {.bounds = kNotNegative});
  // GPT-2's own spellings of keys that all families share.
  v.refused("n_embd", "write hidden_size");
  v.refused("n_inner", "write intermediate_size");
  v.refused("n_layer", "write num_hidden_layers");
  v.refused("n_head", "write num_attention_heads");
  v.refused("n_positions", "write max_position_embeddings");
}

template <typename V>
void fields(V& v, LogicalMeshConfig& c) {
  v.value("tensor", c.tensor, {.bounds = kRanks, .automatic = "auto"});
  v.value("data", c.data, {.bounds = kRanks, .automatic = "auto"});
}

template <typename V>
void fields(V& v, ParallelConfig& c) {
  v.value("tensor", c.tensor, {.bounds = kRanks, .automatic = "auto"});
  v.value("pipeline", c.pipeline, {.bounds = kRanks, .automatic = "auto"});
  v.value("data", c.data, {.bounds = kRanks, .automatic = "auto"});
  v.value("context", c.context, {.bounds = kRanks});
  v.value("expert", c.expert, {.bounds = kRanks});
  v.value("schedule", c.schedule, {});
  v.value("virtual_stages", c.virtual_stages, {.bounds = kRanks});
  v.value("micro_batch_size", c.micro_batch_size, {.bounds = kPositive});
  v.value("sequence_parallel", c.sequence_parallel, {});
  v.value("recompute", c.recompute, {});
  v.value("overlap", c.overlap, {});
  v.value("reduction", c.reduction, {});
  v.value("wire", c.wire, {});
  v.value("stages", c.stages, {.bounds = kPositive});
  v.section("logical", c.logical);
}

template <typename V>
void fields(V& v, TokenizerConfig& c) {
  v.value("bytes", c.bytes, {});
  v.refused("file", "this version has byte tokens only; write tokenizer: {bytes: true}");
}

template <typename V>
void fields(V& v, CheckpointConfig& c) {
  v.value("every_steps", c.every_steps, {.bounds = kPositive});
  v.value("every_minutes", c.every_minutes, {.bounds = kAboveZero});
  v.value("keep_last", c.keep_last, {.bounds = kPositive});
  v.value("keep_every", c.keep_every, {.bounds = kNotNegative});
  v.value("asynchronous", c.asynchronous, {});
}

template <typename V>
void fields(V& v, MetricsConfig& c) {
  v.value("timeline_step", c.timeline_step, {.bounds = kNotNegative});
  v.refused("prometheus", "this version writes metrics.jsonl only; remove the key");
  v.refused("tensorboard", "this version writes metrics.jsonl only; remove the key");
}

// The sections but the phases, in the order of the file.
template <typename V>
void campaign_sections(V& v, Campaign& c) {
  v.section("run", c.run);
  v.section("model", c.model);
  v.section("parallel", c.parallel);
  v.section("tokenizer", c.tokenizer);
  v.section("checkpoint", c.checkpoint);
  v.section("metrics", c.metrics);
}

}  // namespace cambium::config
