// tests/support/tiny_spec.hpp — a network small enough for finite differences, with ragged sizes:
// vocabulary, ffn and block widths are cut unevenly by two or four shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/grow_config.hpp"
#include "growth/operation.hpp"
#include "model/spec.hpp"

namespace cambium::testing {

[[nodiscard]] inline model::Spec tiny_spec(bool is_tied = true, dim_t layers = 2) {
  config::ModelConfig c;
  c.hidden_size = 12;
  c.intermediate_size = 11;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 4;
  c.max_position_embeddings = 16;
  c.tie_word_embeddings = is_tied;
  c.rms_norm_eps = 1e-5;
  c.initializer_range = 0.3;
  return model::make_spec(c, 13);
}

// The same sizes with everything that GPT-2 has and Llama has not; heads that 2 shards divide.
[[nodiscard]] inline model::Spec tiny_gpt2_spec(bool is_tied = true, dim_t layers = 2) {
  config::ModelConfig c;
  c.family = config::Family::gpt2;
  c.hidden_size = 12;
  c.intermediate_size = 11;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 4;
  c.max_position_embeddings = 9;
  c.tie_word_embeddings = is_tied;
  c.initializer_range = 0.3;
  return model::make_spec(c, 13);
}

// One of each family.
[[nodiscard]] inline std::vector<model::Spec> tiny_specs() {
  return {tiny_spec(), tiny_gpt2_spec()};
}

// `spec` with a block of width 7 behind each of `modules`, vector and scalar gates in turn, all
// closed.
[[nodiscard]] inline model::Spec with_blocks(const model::Spec& spec,
                                             const std::vector<std::string>& modules) {
  std::vector<config::GrowOperation> operations;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    operations.emplace_back(config::InsertGatedResidual{
        .after = modules[i],
        .width = 7,
        .gate = i % 2 == 0 ? config::GateKind::vector : config::GateKind::scalar});
  }
  return growth::grow(spec, operations, 1);
}

[[nodiscard]] inline bool begins_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

[[nodiscard]] inline bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace cambium::testing
