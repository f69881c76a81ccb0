// model/public_form.hpp — a family's network as Hugging Face publishes it: keys of config.json,
// names and layouts of tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_config.hpp"
#include "model/inventory.hpp"

namespace cambium::model {

// A parameter of a layer, without ".weight" or ".bias": ours is part `part` of the `of` equal parts
// that stand side by side in the outputs of theirs.
struct LayerName {
  std::string_view ours;
  std::string_view theirs;
  dim_t part = 0;
  dim_t of = 1;
};

// One line of the registry in public_form.cpp; a family's own file defines it.
struct PublicForm {
  config::Family family;
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // written to config.json
  std::string_view prefix;        // of every tensor but the head; some files leave it out
  std::string_view embedding;     // behind the prefix, as all below
  std::string_view positions;
  std::string_view layers;  // before the layer's index
  std::string_view norm;
  std::span<const LayerName> layer;
  bool is_transposed;       // a layer's matrices are stored (inputs, outputs)
  std::string_view rotary;  // which elements of a head turn together, for the files' metadata
  // Endings of tensors that hold no parameter: masks, frequencies.
  std::span<const std::string_view> ignored;
  // Throw Error(bad_input) and Error(usage) for what the other side does not compute.
  config::ModelConfig (*read)(const nlohmann::json& config);
  nlohmann::json (*write)(const Spec& spec);
};

// Throws Error(bad_input) naming the model types that there are.
[[nodiscard]] const PublicForm& public_form(std::string_view model_type);
[[nodiscard]] const PublicForm& public_form(const Spec& spec);

// Where one of our parameters stands in the public files.
struct PublicPlace {
  std::string name;            // of the tensor, with the prefix
  bool is_transposed = false;  // (inputs, outputs)
  dim_t first_output = 0;      // ours are these of its outputs …
  dim_t outputs = 0;           // … of which it has so many
};

// Throws Error(usage) for a parameter that has no public form: of an inserted block, a classifier.
[[nodiscard]] PublicPlace public_place(const PublicForm& form,
                                       const Spec& spec,
                                       const ParameterSpec& parameter);

// The network of a config.json. Throws Error(bad_input) naming the key.
[[nodiscard]] Spec spec_from_public(const nlohmann::json& config);

// The whole config.json. Throws Error(usage) for a network that the family cannot say: layers that
// differ.
[[nodiscard]] nlohmann::json public_config(const Spec& spec);

// Whether a tensor of a public file holds no parameter: a mask, frequencies.
[[nodiscard]] bool is_ignored(const PublicForm& form, std::string_view name);

inline constexpr const char* kPublicHead = "lm_head.weight";

// --- for the families' own files

// The value of `key`; `otherwise` where the key is absent or null. Throws Error(bad_input).
template <typename T>
[[nodiscard]] T public_value(const nlohmann::json& config, const char* key, const T& otherwise);
// A positive number; the first must be there, `otherwise` stands for one that is absent or null.
[[nodiscard]] dim_t public_size(const nlohmann::json& config, const char* key);
[[nodiscard]] dim_t public_size(const nlohmann::json& config, const char* key, dim_t otherwise);

// Throws Error(bad_input) unless `key` is absent, null or `expected`.
template <typename T>
void expect_public(const nlohmann::json& config, const char* key, const T& expected);

}  // namespace cambium::model
