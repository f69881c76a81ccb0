// SPDX-License-Identifier: Apache-2.0
#include "model/spec.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace cambium::model {

using nlohmann::json;

const char* name_of(LayerModule module) {
  switch (module) {
    case LayerModule::attention_norm:
      return "attention_norm";
    case LayerModule::attention:
      return "attention";
    case LayerModule::mlp_norm:
      return "mlp_norm";
    case LayerModule::mlp:
      return "mlp";
  }
  return "?";
}

Spec make_spec(const config::ModelConfig& config, dim_t vocabulary) {
  const config::FamilyTraits& family = config::traits_of(config.family);
  const bool is_learned = family.positions == config::Positions::learned;
  Spec spec;
  spec.family = family.name;
  spec.hidden = config.hidden_size;
  spec.vocabulary = vocabulary;
  spec.max_positions = config.max_position_embeddings;
  spec.is_tied = config.tie_word_embeddings;
  spec.norm = family.norm;
  spec.norm_eps = family.norm == NormKind::layer ? config.layer_norm_epsilon : config.rms_norm_eps;
  spec.norm_width = spec.hidden;
  spec.init_std = config.initializer_range;
  spec.embedding_uid = spec.take_uid();
  spec.positions_uid = is_learned ? spec.take_uid() : 0;
  const dim_t head_width =
      config.head_dim.value_or(config.hidden_size / config.num_attention_heads);
  for (dim_t i = 0; i < config.num_hidden_layers; ++i) {
    LayerSpec layer;
    layer.uid = spec.take_uid();
    layer.heads = config.num_attention_heads;
    layer.kv_heads = config.num_key_value_heads;
    layer.head_width = head_width;
    layer.ffn = config.intermediate_size;
    layer.norm = family.norm;
    layer.activation = family.activation;
    layer.biases = family.biases;
    layer.has_rope = !is_learned;
    layer.attention_scale = 1 / std::sqrt(static_cast<double>(head_width));
    layer.rope_theta = config.rope_theta;
    layer.norm_eps = spec.norm_eps;
    layer.norm_width = spec.hidden;
    layer.init_std = config.initializer_range;
    layer.init_std_out =
        config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
    spec.layers.push_back(layer);
  }
  spec.norm_uid = spec.take_uid();
  if (!spec.is_tied) {
    spec.head_uid = spec.take_uid();
  }
  return spec;
}

void add_classifier(Spec& spec, dim_t classes, std::int64_t step) {
  spec.classifier_uid = spec.take_uid();
  spec.classes = classes;
  spec.classifier_birth = {.step = step};
}

std::vector<std::string> insertion_points(const Spec& spec) {
  std::vector<std::string> names = {"embedding"};
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    for (int m = 0; m < kLayerModules; ++m) {
      names.push_back(fmt::format("layers.{}.{}", i, name_of(static_cast<LayerModule>(m))));
    }
  }
  names.emplace_back("norm");
  return names;
}

std::vector<InsertedBlock>& blocks_after(Spec& spec, const std::string& module) {
  if (module == "embedding") {
    return spec.after_embedding;
  }
  if (module == "norm") {
    return spec.after_norm;
  }
  const std::string prefix = "layers.";
  if (module.rfind(prefix, 0) == 0) {
    std::size_t index = 0;
    const char* begin = module.data() + prefix.size();
    const char* end = module.data() + module.size();
    const auto [rest, ec] = std::from_chars(begin, end, index);
    if (ec == std::errc{} && index < spec.layers.size()) {
      const std::string tail(rest, end);
      if (tail.empty()) {  // a layer's output is its mlp's
        return spec.layers[index].inserted[static_cast<int>(LayerModule::mlp)];
      }
      for (int m = 0; m < kLayerModules; ++m) {
        if (tail == std::string(".") + name_of(static_cast<LayerModule>(m))) {
          return spec.layers[index].inserted[m];
        }
      }
    }
  }
  throw Error(
      Code::usage,
      fmt::format(
          "insert_gated_residual: after: no module \"{}\" in a model of {} layers; use embedding, "
          "layers.N.attention_norm, layers.N.attention, layers.N.mlp_norm, layers.N.mlp (N from 0 "
          "to {}) "
          "or norm",
          module,
          spec.layers.size(),
          static_cast<dim_t>(spec.layers.size()) - 1));
}

namespace {

constexpr const char* kNorms[] = {"rms", "layer"};
constexpr const char* kActivations[] = {"swiglu", "gelu_tanh"};
constexpr const char* kBiases[] = {"none", "qkv", "all"};

template <typename E, std::size_t N>
const char* word_of(const char* const (&words)[N], E value) {
  return words[static_cast<std::size_t>(value)];
}

// The E whose word stands under `key`; its first word where a checkpoint of an earlier version has
// no such key.
template <typename E, std::size_t N>
E value_of(const char* const (&words)[N], const json& j, const char* key) {
  const std::string word = j.value(key, words[0]);
  for (std::size_t i = 0; i < N; ++i) {
    if (word == words[i]) {
      return static_cast<E>(i);
    }
  }
  throw Error(Code::bad_input,
              fmt::format("checkpoint: model spec: {}: expected one of {}, got \"{}\"",
                          key,
                          fmt::join(words, ", "),
                          word));
}

json birth_json(const Birth& b) {
  return {{"step", b.step},
          {"warmup_steps", b.warmup_steps},
          {"learning_rate_multiplier", b.learning_rate_multiplier}};
}

Birth birth_from(const json& j) {
  return {j.at("step"), j.at("warmup_steps"), j.at("learning_rate_multiplier")};
}

json blocks_json(const std::vector<InsertedBlock>& blocks) {
  json list = json::array();
  for (const InsertedBlock& b : blocks) {
    list.push_back({{"uid", b.uid},
                    {"width", b.width},
                    {"gate", b.gate == GateKind::vector ? "vector" : "scalar"},
                    {"norm_eps", b.norm_eps},
                    {"norm_width", b.norm_width},
                    {"init_std", b.init_std},
                    {"born_closed", b.born_closed},
                    {"birth", birth_json(b.birth)}});
  }
  return list;
}

std::vector<InsertedBlock> blocks_from(const json& list) {
  std::vector<InsertedBlock> blocks;
  for (const json& j : list) {
    InsertedBlock b;
    b.uid = j.at("uid");
    b.width = j.at("width");
    b.gate = j.at("gate") == "vector" ? GateKind::vector : GateKind::scalar;
    b.norm_eps = j.at("norm_eps");
    b.norm_width = j.at("norm_width");
    b.init_std = j.at("init_std");
    b.born_closed = j.at("born_closed");
    b.birth = birth_from(j.at("birth"));
    blocks.push_back(b);
  }
  return blocks;
}

json layer_json(const LayerSpec& l) {
  json j = {{"uid", l.uid},
            {"heads", l.heads},
            {"kv_heads", l.kv_heads},
            {"head_width", l.head_width},
            {"ffn", l.ffn},
            {"norm", word_of(kNorms, l.norm)},
            {"activation", word_of(kActivations, l.activation)},
            {"biases", word_of(kBiases, l.biases)},
            {"has_rope", l.has_rope},
            {"attention_scale", l.attention_scale},
            {"rope_theta", l.rope_theta},
            {"norm_eps", l.norm_eps},
            {"norm_width", l.norm_width},
            {"init_std", l.init_std},
            {"init_std_out", l.init_std_out},
            {"born_closed", l.born_closed},
            {"birth", birth_json(l.birth)}};
  for (int m = 0; m < kLayerModules; ++m) {
    j["inserted"][name_of(static_cast<LayerModule>(m))] = blocks_json(l.inserted[m]);
  }
  return j;
}

LayerSpec layer_from(const json& j) {
  LayerSpec l;
  l.uid = j.at("uid");
  l.heads = j.at("heads");
  l.kv_heads = j.at("kv_heads");
  l.head_width = j.at("head_width");
  l.ffn = j.at("ffn");
  l.norm = value_of<NormKind>(kNorms, j, "norm");
  l.activation = value_of<Activation>(kActivations, j, "activation");
  l.biases = value_of<Biases>(kBiases, j, "biases");
  l.has_rope = j.value("has_rope", true);
  l.attention_scale = j.at("attention_scale");
  l.rope_theta = j.at("rope_theta");
  l.norm_eps = j.at("norm_eps");
  l.norm_width = j.at("norm_width");
  l.init_std = j.at("init_std");
  l.init_std_out = j.at("init_std_out");
  l.born_closed = j.at("born_closed");
  l.birth = birth_from(j.at("birth"));
  for (int m = 0; m < kLayerModules; ++m) {
    l.inserted[m] = blocks_from(j.at("inserted").at(name_of(static_cast<LayerModule>(m))));
  }
  return l;
}

}  // namespace

json to_json(const Spec& s) {
  json j = {{"family", s.family},
            {"hidden", s.hidden},
            {"vocabulary", s.vocabulary},
            {"max_positions", s.max_positions},
            {"is_tied", s.is_tied},
            {"norm", word_of(kNorms, s.norm)},
            {"norm_eps", s.norm_eps},
            {"norm_width", s.norm_width},
            {"init_std", s.init_std},
            {"embedding_uid", s.embedding_uid},
            {"positions_uid", s.positions_uid},
            {"norm_uid", s.norm_uid},
            {"head_uid", s.head_uid},
            {"classifier_uid", s.classifier_uid},
            {"classes", s.classes},
            {"classifier_birth", birth_json(s.classifier_birth)},
            {"next_uid", s.next_uid},
            {"after_embedding", blocks_json(s.after_embedding)},
            {"after_norm", blocks_json(s.after_norm)},
            {"layers", json::array()}};
  for (const LayerSpec& l : s.layers) {
    j["layers"].push_back(layer_json(l));
  }
  return j;
}

Spec spec_from_json(const json& j) {
  try {
    Spec s;
    s.family = j.at("family");
    s.hidden = j.at("hidden");
    s.vocabulary = j.at("vocabulary");
    s.max_positions = j.at("max_positions");
    s.is_tied = j.at("is_tied");
    s.norm = value_of<NormKind>(kNorms, j, "norm");
    s.norm_eps = j.at("norm_eps");
    s.norm_width = j.at("norm_width");
    s.init_std = j.at("init_std");
    s.embedding_uid = j.at("embedding_uid");
    s.positions_uid = j.value("positions_uid", std::uint64_t{0});
    s.norm_uid = j.at("norm_uid");
    s.head_uid = j.at("head_uid");
    s.classifier_uid = j.at("classifier_uid");
    s.classes = j.at("classes");
    s.classifier_birth = birth_from(j.at("classifier_birth"));
    s.next_uid = j.at("next_uid");
    s.after_embedding = blocks_from(j.at("after_embedding"));
    s.after_norm = blocks_from(j.at("after_norm"));
    for (const json& l : j.at("layers")) {
      s.layers.push_back(layer_from(l));
    }
    return s;
  } catch (const json::exception& e) {
    throw Error(Code::bad_input, std::string("checkpoint: model spec: ") + e.what());
  }
}

}  // namespace cambium::model
