// SPDX-License-Identifier: Apache-2.0
#include "model/families/gpt2.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace cambium::model::families {
namespace {

using nlohmann::json;

constexpr LayerName kLayer[] = {{"attention_norm", "ln_1"},
                                {"attention.q", "attn.c_attn", 0, 3},
                                {"attention.k", "attn.c_attn", 1, 3},
                                {"attention.v", "attn.c_attn", 2, 3},
                                {"attention.o", "attn.c_proj"},
                                {"mlp_norm", "ln_2"},
                                {"mlp.up", "mlp.c_fc"},
                                {"mlp.down", "mlp.c_proj"}};

// Causal masks, which old files carry.
constexpr std::string_view kIgnored[] = {".attn.bias", ".attn.masked_bias"};

config::ModelConfig read(const json& config) {
  const std::string activation =
      public_value<std::string>(config, "activation_function", "gelu_new");
  if (activation != "gelu_pytorch_tanh") {  // another name of the same function
    expect_public<std::string>(config, "activation_function", "gelu_new");
  }
  expect_public(config, "scale_attn_weights", true);
  expect_public(config, "scale_attn_by_inverse_layer_idx", false);
  expect_public(config, "add_cross_attention", false);
  config::ModelConfig m;
  m.hidden_size = public_size(config, "n_embd");
  m.intermediate_size = public_size(config, "n_inner", 4 * m.hidden_size);
  m.num_hidden_layers = public_size(config, "n_layer");
  m.num_attention_heads = public_size(config, "n_head");
  m.num_key_value_heads = m.num_attention_heads;
  m.max_position_embeddings = public_size(config, "n_positions");
  m.tie_word_embeddings = public_value(config, "tie_word_embeddings", true);
  m.layer_norm_epsilon = public_value(config, "layer_norm_epsilon", 1e-5);
  m.initializer_range = public_value(config, "initializer_range", 0.02);
  return m;
}

json write(const Spec& spec) {
  const LayerSpec& l = spec.layers.front();
  return {{"n_embd", spec.hidden},
          {"n_inner", l.ffn},
          {"n_layer", spec.layers.size()},
          {"n_head", l.heads},
          {"n_positions", spec.max_positions},
          {"n_ctx", spec.max_positions},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", spec.norm_eps},
          {"scale_attn_weights", true},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0}};
}

}  // namespace

constinit const PublicForm kGpt2{.family = config::Family::gpt2,
                                 .model_type = "gpt2",
                                 .architecture = "GPT2LMHeadModel",
                                 .prefix = "transformer.",
                                 .embedding = "wte",
                                 .positions = "wpe",
                                 .layers = "h.",
                                 .norm = "ln_f",
                                 .layer = kLayer,
                                 .is_transposed = true,
                                 .rotary = "",
                                 .ignored = kIgnored,
                                 .read = read,
                                 .write = write};

}  // namespace cambium::model::families
