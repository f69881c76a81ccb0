// config/campaign.hpp — a whole campaign file, typed (design.md §3).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.hpp"
#include "config/checkpoint_config.hpp"
#include "config/evaluate_config.hpp"
#include "config/grow_config.hpp"
#include "config/metrics_config.hpp"
#include "config/model_config.hpp"
#include "config/mtssl_config.hpp"
#include "config/parallel_config.hpp"
#include "config/pretrain_config.hpp"
#include "config/run_config.hpp"
#include "config/tokenizer_config.hpp"

namespace cambium::config {

struct Phase {
  std::string name;                       // unique
  std::optional<std::string> start_from;  // a phase before it, whose last checkpoint it starts from
  std::variant<PretrainPhase, GrowPhase, MtsslPhase, EvaluatePhase> settings;

  // pretrain, grow, mtssl or evaluate.
  [[nodiscard]] std::string_view kind() const;
  // Updates that it makes: 0 for grow and evaluate.
  [[nodiscard]] dim_t steps() const;

  bool operator==(const Phase&) const = default;
};

// Where a key stands, as `file:line`, by its dotted path. Only for messages: two campaigns are
// equal whatever their places.
struct Places {
  std::string file;
  std::map<std::string, std::string, std::less<>> by_path;

  // The place of the key, or of the nearest key above it.
  [[nodiscard]] std::string of(std::string_view path) const;

  bool operator==(const Places&) const {
    return true;
  }
};

struct Campaign {
  RunConfig run;
  ModelConfig model;
  ParallelConfig parallel;
  TokenizerConfig tokenizer;
  CheckpointConfig checkpoint;
  MetricsConfig metrics;
  std::vector<Phase> phases;
  Places places;

  bool operator==(const Campaign&) const = default;
};

// Reads, checks and cross-checks a file. `overrides` are texts `a.b.c=value`; a phase is named by
// its name or its index. Data paths come out relative to the file's folder resolved, run.directory
// as written. Throws: Error(usage) with all problems, one a line, each `file:line: key.path: what,
// expected, got, hint`.
[[nodiscard]] Campaign load_campaign(const std::filesystem::path& file,
                                     std::span<const std::string> overrides = {});

// The same from text; `file` names it in messages and its folder resolves relative paths.
[[nodiscard]] Campaign parse_campaign(std::string_view text,
                                      const std::filesystem::path& file,
                                      std::span<const std::string> overrides = {});

// The file as resolved: every key with its value, numbers shortest and locale independent, data
// paths absolute. Loading it gives an equal campaign.
[[nodiscard]] std::string resolved_yaml(const Campaign& campaign);

// Ids that the tokenizer has: 0 … 255. The mask and pad ids come behind them when a phase is of
// kind mtssl.
inline constexpr dim_t kByteIds = 256;
inline constexpr dim_t kMaskId = 256;
inline constexpr dim_t kPadId = 257;

// model.vocab_size, or for auto: 256, and 258 when any phase is of kind mtssl.
[[nodiscard]] dim_t vocabulary_size(const Campaign& campaign);

// The phase's place in `phases`. Throws Error(usage) naming the nearest phase.
[[nodiscard]] std::size_t phase_index(const Campaign& campaign, std::string_view name);

}  // namespace cambium::config
