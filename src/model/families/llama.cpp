// SPDX-License-Identifier: Apache-2.0
#include "model/families/llama.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace cambium::model::families {
namespace {

using nlohmann::json;

// Their rotary pairs are half a head apart, as ours: nothing is permuted.
constexpr LayerName kLayer[] = {{"attention_norm", "input_layernorm"},
                                {"attention.q", "self_attn.q_proj"},
                                {"attention.k", "self_attn.k_proj"},
                                {"attention.v", "self_attn.v_proj"},
                                {"attention.o", "self_attn.o_proj"},
                                {"mlp_norm", "post_attention_layernorm"},
                                {"mlp.gate", "mlp.gate_proj"},
                                {"mlp.up", "mlp.up_proj"},
                                {"mlp.down", "mlp.down_proj"}};

constexpr std::string_view kIgnored[] = {".rotary_emb.inv_freq"};

// Plain rotary positions, or none of what scales them: a type that is dropped would still run, with
// other positions.
void expect_plain(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return;
  }
  for (const auto& [name, value] : found->items()) {
    const bool is_type = name == "rope_type" || name == "type";
    if (name != "rope_theta" && !(is_type && value == "default")) {
      throw Error(Code::bad_input,
                  "config.json: " + std::string(key) +
                      ": this program turns positions plainly (rope_type default), got " +
                      found->dump());
    }
  }
}

// Newer files keep it in an object of its own.
double rope_theta(const json& config) {
  expect_plain(config, "rope_scaling");
  expect_plain(config, "rope_parameters");
  expect_public(config, "partial_rotary_factor", 1.0);
  const double outer = public_value(config, "rope_theta", 1e4);
  const auto inner = config.find("rope_parameters");
  if (inner == config.end() || inner->is_null()) {
    return outer;
  }
  const double theta = public_value(*inner, "rope_theta", outer);
  if (config.contains("rope_theta") && theta != outer) {
    throw Error(Code::bad_input,
                "config.json: rope_theta: " + json(outer).dump() + ", and rope_parameters has " +
                    json(theta).dump());
  }
  return theta;
}

config::ModelConfig read(const json& config) {
  expect_public<std::string>(config, "hidden_act", "silu");
  expect_public(config, "attention_bias", false);
  expect_public(config, "mlp_bias", false);
  config::ModelConfig m;
  m.hidden_size = public_size(config, "hidden_size");
  m.intermediate_size = public_size(config, "intermediate_size");
  m.num_hidden_layers = public_size(config, "num_hidden_layers");
  m.num_attention_heads = public_size(config, "num_attention_heads");
  m.num_key_value_heads = public_size(config, "num_key_value_heads", m.num_attention_heads);
  if (config.contains("head_dim") && !config["head_dim"].is_null()) {
    m.head_dim = public_size(config, "head_dim");
  }
  m.max_position_embeddings = public_size(config, "max_position_embeddings", 2048);
  m.tie_word_embeddings = public_value(config, "tie_word_embeddings", false);
  m.rms_norm_eps = public_value(config, "rms_norm_eps", 1e-6);
  m.rope_theta = rope_theta(config);
  m.initializer_range = public_value(config, "initializer_range", 0.02);
  return m;
}

json write(const Spec& spec) {
  const LayerSpec& l = spec.layers.front();
  return {{"hidden_size", spec.hidden},
          {"intermediate_size", l.ffn},
          {"num_hidden_layers", spec.layers.size()},
          {"num_attention_heads", l.heads},
          {"num_key_value_heads", l.kv_heads},
          {"head_dim", l.head_width},
          {"max_position_embeddings", spec.max_positions},
          {"hidden_act", "silu"},
          {"rms_norm_eps", spec.norm_eps},
          {"rope_theta", l.rope_theta},
          {"attention_bias", false},
          {"mlp_bias", false}};
}

}  // namespace

constinit const PublicForm kLlama{.family = config::Family::llama,
                                  .model_type = "llama",
                                  .architecture = "LlamaForCausalLM",
                                  .prefix = "model.",
                                  .embedding = "embed_tokens",
                                  .positions = "",
                                  .layers = "layers.",
                                  .norm = "norm",
                                  .layer = kLayer,
                                  .is_transposed = false,
                                  .rotary = "half_split",
                                  .ignored = kIgnored,
                                  .read = read,
                                  .write = write};

}  // namespace cambium::model::families
