// config/family.hpp — what distinguishes one family of networks from another. A family is data: the
// keys it has, their defaults, and the kinds of its parts; the one decoder layer is built from
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/types.hpp"

namespace cambium::config {

enum class Family : std::uint8_t { llama, gpt2 };

enum class NormKind : std::uint8_t { rms, layer };        // layer: mean, and a bias beside the gain
enum class Positions : std::uint8_t { rotary, learned };  // learned: a table added to the tokens'
enum class Activation : std::uint8_t { swiglu, gelu_tanh };  // gelu_tanh: up and down only
enum class Biases : std::uint8_t { none, qkv, all };         // of a layer's products

struct FamilyTraits {
  Family family;
  std::string_view name;
  NormKind norm;
  Positions positions;
  Activation activation;
  Biases biases;
  bool has_grouped_heads;  // fewer key/value heads than heads
  bool has_head_dim;       // a head's width may differ from hidden_size / num_attention_heads
  dim_t ffn_multiple;      // intermediate_size by default, in hidden_size; 0: the key is required
  bool is_tied;            // tie_word_embeddings by default
};

}  // namespace cambium::config
