// model/public_form.cpp — the registry of public forms, one line each, and what they share.
// SPDX-License-Identifier: Apache-2.0
#include "model/public_form.hpp"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/families/gpt2.hpp"
#include "model/families/llama.hpp"

namespace cambium::model {
namespace {

using nlohmann::json;

constexpr const PublicForm* kForms[] = {&families::kGpt2, &families::kLlama};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Code::bad_input, "config.json: " + what);
}

std::string names_of_types() {
  std::string names;
  for (const PublicForm* form : kForms) {
    names += (names.empty() ? "" : ", ") + std::string(form->model_type);
  }
  return names;
}

// What a family's config.json says once must be the same in every layer.
void expect_uniform(const Spec& spec) {
  for (const LayerSpec& l : spec.layers) {
    LayerSpec like = spec.layers.front();
    like.uid = l.uid;
    like.birth = l.birth;
    like.born_closed = l.born_closed;
    like.init_std = l.init_std;
    like.init_std_out = l.init_std_out;
    const bool is_usual = l == like &&
                          l.attention_scale == 1 / std::sqrt(static_cast<double>(l.head_width)) &&
                          l.norm_eps == spec.norm_eps && l.norm_width == spec.hidden;
    if (!is_usual) {
      throw Error(Code::usage,
                  "the layers' sizes, constants or inserted blocks differ: the public form of the "
                  "family says one for all");
    }
  }
}

}  // namespace

const PublicForm& public_form(std::string_view model_type) {
  for (const PublicForm* form : kForms) {
    if (form->model_type == model_type) {
      return *form;
    }
  }
  refuse(fmt::format("model_type: expected one of {}, got \"{}\"", names_of_types(), model_type));
}

const PublicForm& public_form(const Spec& spec) {
  for (const PublicForm* form : kForms) {
    if (config::traits_of(form->family).name == spec.family) {
      return *form;
    }
  }
  throw Error(Code::usage, "family " + spec.family + " has no public form");
}

PublicPlace public_place(const PublicForm& form, const Spec& spec, const ParameterSpec& parameter) {
  const std::string& ours = parameter.name;
  const std::string prefix(form.prefix);
  const auto whole = [&](const std::string& name) {
    return PublicPlace{.name = name,
                       .outputs = parameter.is_vector ? parameter.cols : parameter.rows};
  };
  if (ours == "embedding.weight") {
    return whole(prefix + std::string(form.embedding) + ".weight");
  }
  if (ours == "positions.weight") {
    return whole(prefix + std::string(form.positions) + ".weight");
  }
  if (ours == "head.weight") {
    return whole(kPublicHead);
  }
  if (ours == "norm.weight" || ours == "norm.bias") {
    return whole(prefix + std::string(form.norm) + ours.substr(ours.find('.')));
  }
  const std::size_t kind = ours.rfind('.');  // of ".weight" or ".bias"
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    if (ours.rfind(layer, 0) != 0) {
      continue;
    }
    for (const LayerName& n : form.layer) {
      if (ours.substr(layer.size(), kind - layer.size()) == n.ours) {
        PublicPlace place = whole(
            fmt::format("{}{}{}.{}{}", form.prefix, form.layers, i, n.theirs, ours.substr(kind)));
        place.is_transposed = form.is_transposed && !parameter.is_vector;
        place.first_output = n.part * place.outputs;
        place.outputs *= n.of;
        return place;
      }
    }
  }
  throw Error(Code::usage,
              fmt::format("{} has no place in the public files of family {}", ours, spec.family));
}

Spec spec_from_public(const json& config) {
  const PublicForm& form = public_form(public_value<std::string>(config, "model_type", ""));
  config::ModelConfig model = form.read(config);
  model.family = form.family;
  const dim_t vocabulary = public_size(config, "vocab_size");
  if (model.hidden_size % model.num_attention_heads != 0 && !model.head_dim) {
    refuse(fmt::format(
        "{} heads do not divide a width of {}", model.num_attention_heads, model.hidden_size));
  }
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    refuse(fmt::format("{} key/value heads do not divide {} heads",
                       model.num_key_value_heads,
                       model.num_attention_heads));
  }
  return make_spec(model, vocabulary);
}

json public_config(const Spec& spec) {
  expect_uniform(spec);
  const PublicForm& form = public_form(spec);
  json config = form.write(spec);
  config["model_type"] = form.model_type;
  config["architectures"] = {form.architecture};
  config["vocab_size"] = spec.vocabulary;
  config["tie_word_embeddings"] = spec.is_tied;
  config["initializer_range"] = spec.init_std;
  config["torch_dtype"] = "float32";
  return config;
}

bool is_ignored(const PublicForm& form, std::string_view name) {
  for (const std::string_view ending : form.ignored) {
    if (name.size() >= ending.size() && name.substr(name.size() - ending.size()) == ending) {
      return true;
    }
  }
  return false;
}

template <typename T>
T public_value(const json& config, const char* key, const T& otherwise) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return otherwise;
  }
  try {
    return found->get<T>();
  } catch (const json::exception&) {
    refuse(fmt::format("{}: unexpected value {}", key, found->dump()));
  }
}

dim_t public_size(const json& config, const char* key, dim_t otherwise) {
  return config.contains(key) && !config[key].is_null() ? public_size(config, key) : otherwise;
}

dim_t public_size(const json& config, const char* key) {
  const dim_t size = public_value<dim_t>(config, key, 0);
  if (size <= 0) {
    refuse(fmt::format(
        "{}: expected a positive number{}", key, config.contains(key) ? "" : ", it is missing"));
  }
  return size;
}

template <typename T>
void expect_public(const json& config, const char* key, const T& expected) {
  const T got = public_value<T>(config, key, expected);
  if (got != expected) {
    refuse(fmt::format(
        "{}: this program computes {} only, got {}", key, json(expected).dump(), json(got).dump()));
  }
}

template bool public_value(const json&, const char*, const bool&);
template dim_t public_value(const json&, const char*, const dim_t&);
template double public_value(const json&, const char*, const double&);
template std::string public_value(const json&, const char*, const std::string&);
template void expect_public(const json&, const char*, const bool&);
template void expect_public(const json&, const char*, const double&);
template void expect_public(const json&, const char*, const std::string&);

}  // namespace cambium::model
