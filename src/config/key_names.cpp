// SPDX-License-Identifier: Apache-2.0
#include "config/key_names.hpp"

#include <algorithm>
#include <string_view>

#include "config/fields.hpp"
#include "config/phase_fields.hpp"

namespace cambium::config {
namespace {

template <typename T>
struct Unwrapped {
  using type = T;
};

template <typename T>
struct Unwrapped<std::optional<T>> {
  using type = T;
};

// A visitor of fields.hpp that only looks at the names.
struct NameCollector {
  std::vector<std::string>& out;
  std::string prefix;

  template <typename T>
  void value(std::string_view key, T& /*member*/, const Rule& /*rule*/) {
    add(key);
  }

  template <typename T>
  void section(std::string_view key, T& /*member*/) {
    add(key);
    typename Unwrapped<T>::type inner{};
    NameCollector below{.out = out, .prefix = prefix + std::string(key) + "."};
    fields(below, inner);
  }

  void refused(std::string_view /*key*/, std::string_view /*why*/) {}

  bool skips_model_keys(const ModelConfig& /*model*/) {
    return false;
  }

  void starts_family(ModelConfig& /*model*/) {}

  // The names of all families.
  bool has_key(bool /*family_has_it*/) {
    return true;
  }

  void add(std::string_view key) {
    std::string path = prefix + std::string(key);
    if (std::find(out.begin(), out.end(), path) == out.end()) {
      out.push_back(std::move(path));
    }
  }
};

template <typename T>
void collect(NameCollector& names) {
  T phase{};
  fields(names, phase);
}

}  // namespace

const std::vector<std::string>& all_key_paths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> out;
    Campaign campaign;
    NameCollector sections{.out = out, .prefix = ""};
    campaign_sections(sections, campaign);
    NameCollector phases{.out = out, .prefix = "phases.*."};
    collect<PretrainPhase>(phases);
    collect<GrowPhase>(phases);
    collect<MtsslPhase>(phases);
    collect<EvaluatePhase>(phases);
    return out;
  }();
  return paths;
}

}  // namespace cambium::config
