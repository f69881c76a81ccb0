// config/model_config.hpp — section `model`: a family under Hugging Face's names, or a checkpoint
// to start from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "base/types.hpp"
#include "config/family.hpp"

namespace cambium::config {

struct ModelConfig {
  // A Cambium checkpoint folder that gives structure and parameters; every other key is then at its
  // default.
  std::optional<std::filesystem::path> from;
  Family family = Family::llama;
  dim_t hidden_size = 0;
  dim_t intermediate_size = 0;  // absent in the file: the family's multiple of hidden_size
  dim_t num_hidden_layers = 0;
  dim_t num_attention_heads = 0;
  dim_t num_key_value_heads = 0;  // absent in the file: num_attention_heads
  std::optional<dim_t> head_dim;  // none: hidden_size / num_attention_heads
  dim_t max_position_embeddings = 2048;
  std::optional<dim_t> vocab_size;   // none: auto; use vocabulary_size(campaign)
  bool tie_word_embeddings = false;  // absent in the file: as the family has it
  double rms_norm_eps = 1e-6;        // families with RMSNorm
  double layer_norm_epsilon = 1e-5;  // families with LayerNorm
  double rope_theta = 10000;
  double initializer_range = 0.02;

  // (E) width of one head.
  [[nodiscard]] dim_t head_size() const {
    return head_dim ? *head_dim : hidden_size / num_attention_heads;
  }

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace cambium::config
