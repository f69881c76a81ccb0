// config/overrides.hpp — `--set a.b.c=value`: one value of a document replaced or added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/document.hpp"

namespace cambium::config {

struct OverrideProblem {
  std::string place;
  std::string path;
  std::string text;
};

// Applies `path=value`; the value is YAML. A step of the path is a key, or in a list an index or an
// element's name; maps on the way are made. Returns what is wrong, the document then unchanged.
[[nodiscard]] std::optional<OverrideProblem> apply_override(Node& root,
                                                            std::string_view assignment);

}  // namespace cambium::config
