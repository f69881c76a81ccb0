// SPDX-License-Identifier: Apache-2.0
#include "data/label_set.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"
#include "config/nearest.hpp"

namespace cambium::data {

LabelSet::LabelSet(std::vector<std::string> names) : names_(std::move(names)) {
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  if (names_.size() < 2) {
    throw Error(Code::bad_input, fmt::format("{} label names, expected at least 2", names_.size()));
  }
}

LabelSet LabelSet::choose(const config::MtsslPhase& phase, const std::vector<TextRecord>& records) {
  std::vector<std::string> names;
  for (const TextRecord& record : records) {
    names.push_back(record.label);
  }
  LabelSet all(std::move(names));
  const std::string file = phase.labelled.string();
  for (const std::string& name : phase.labels) {
    if (all.index_of(name) < 0) {
      const auto near = config::nearest_name(name, all.names());
      throw Error(Code::bad_input,
                  fmt::format("{}: no text has the label {}{}",
                              file,
                              name,
                              near ? "; did you mean " + *near + "?" : ""));
    }
  }
  if (phase.intents > all.size()) {
    throw Error(
        Code::bad_input,
        fmt::format(
            "{}: {} label names, expected at least intents {}", file, all.size(), phase.intents));
  }
  if (!phase.labels.empty()) {
    return LabelSet(phase.labels);
  }
  if (phase.intents > 0) {
    all.names_.resize(static_cast<std::size_t>(phase.intents));
  }
  return all;
}

std::int32_t LabelSet::index_of(std::string_view name) const {
  const auto found = std::lower_bound(names_.begin(), names_.end(), name);
  return found != names_.end() && *found == name ? static_cast<std::int32_t>(found - names_.begin())
                                                 : -1;
}

}  // namespace cambium::data
