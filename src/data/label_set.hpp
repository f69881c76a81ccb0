// data/label_set.hpp — the classes of a classification phase, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "config/mtssl_config.hpp"
#include "data/json_lines.hpp"

namespace cambium::data {

// Names in bytewise order; a class's index is its place in it.
class LabelSet {
 public:
  // Throws: Error(bad_input) for fewer than two names.
  explicit LabelSet(std::vector<std::string> names);

  // All names of the records, or the phase's `labels`, or the first `intents` of them.
  // Throws: Error(bad_input) for a name that no record has (with the nearest) or more intents than
  // there are names.
  static LabelSet choose(const config::MtsslPhase& phase, const std::vector<TextRecord>& records);

  [[nodiscard]] dim_t size() const {
    return static_cast<dim_t>(names_.size());
  }

  [[nodiscard]] const std::vector<std::string>& names() const {
    return names_;
  }

  // -1 when the name is not in the set.
  [[nodiscard]] std::int32_t index_of(std::string_view name) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace cambium::data
