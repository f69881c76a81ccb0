// config/read_fields.hpp — the visitor of fields.hpp that fills structs from a Reader.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/fields.hpp"
#include "config/key_names.hpp"
#include "config/phase_fields.hpp"
#include "config/reader.hpp"
#include "config/words.hpp"

namespace cambium::config {

class FieldReader {
 public:
  // `folder` resolves relative data paths.
  FieldReader(Reader& map, const std::filesystem::path& folder) : map_(map), folder_(folder) {}

  template <typename T>
  void value(std::string_view key, T& member, const Rule& rule) {
    Reader node = map_.at(key);
    if (!node.is_written()) {
      if (rule.required) {
        node.add_problem("missing");
      }
      return;
    }
    if (!rule.automatic.empty() && node.is_word(rule.automatic)) {
      member = T{};  // kAuto, or an empty optional
      return;
    }
    read(node, member, rule);
  }

  template <typename T>
  void section(std::string_view key, T& member) {
    Reader node = map_.at(key);
    if (node.is_present()) {
      read_section(node, member);
    }
  }

  void refused(std::string_view key, std::string_view why) {
    Reader node = map_.at(key);
    if (node.is_written()) {
      node.add_problem(why);
    }
  }

  bool skips_model_keys(const ModelConfig& model) {
    return model.from.has_value();
  }

  // Defaults that depend on the family, before the keys that may override them.
  void starts_family(ModelConfig& model) {
    model.tie_word_embeddings = traits_of(model.family).is_tied;
  }

  bool has_key(bool family_has_it) {
    return family_has_it;
  }

  template <typename T>
  void read_section(Reader& node, T& member) {
    if (node.expect_map()) {
      FieldReader below(node, folder_);
      fields(below, member);
      node.refuse_unknown(all_key_paths());
    }
  }

  template <typename T>
  void read_section(Reader& node, std::optional<T>& member) {
    read_section(node, member.emplace());
  }

  // A path alone stands for a map with this path.
  void read_section(Reader& node, ValidationConfig& member);

 private:
  template <typename T>
  static void assign(T& member, const std::optional<T>& value) {
    if (value) {
      member = *value;
    }
  }

  template <typename T>
  void read(Reader& node, std::optional<T>& member, const Rule& rule) {
    if (!node.is_present()) {
      member.reset();  // null: as if it were absent
      return;
    }
    T value{};
    read(node, value, rule);
    member = value;
  }

  template <typename E>
  requires std::is_enum_v<E>

  void read(Reader& node, E& member, const Rule& /*rule*/) {
    for (const RefusedWord& word : Words<E>::refused) {
      if (node.is_word(word.text)) {
        node.add_problem(std::string(word.text) + " is not available: " + std::string(word.why));
        return;
      }
    }
    std::vector<std::string> words;
    for (const Word<E>& word : Words<E>::all) {
      words.emplace_back(word.text);
    }
    if (const std::optional<std::size_t> i = node.read_word(words)) {
      member = Words<E>::all[*i].value;
    }
  }

  static void read(Reader& node, std::string& member, const Rule& rule);
  static void read(Reader& node, bool& member, const Rule& rule);
  static void read(Reader& node, int& member, const Rule& rule);
  static void read(Reader& node, dim_t& member, const Rule& rule);
  static void read(Reader& node, std::uint64_t& member, const Rule& rule);
  static void read(Reader& node, double& member, const Rule& rule);
  static void read(Reader& node, Betas& member, const Rule& rule);
  static void read(Reader& node, std::vector<dim_t>& member, const Rule& rule);
  static void read(Reader& node, std::vector<std::string>& member, const Rule& rule);
  void read(Reader& node, std::filesystem::path& member, const Rule& rule) const;
  void read(Reader& node, std::vector<DataSource>& member, const Rule& rule) const;
  void read(Reader& node, std::vector<GrowOperation>& member, const Rule& rule) const;

  Reader& map_;
  const std::filesystem::path& folder_;
};

// The list `phases`.
[[nodiscard]] std::vector<Phase> read_phases(Reader& list, const std::filesystem::path& folder);

}  // namespace cambium::config
