// config/nearest.hpp — the name that a person probably meant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cambium::config {

// Insertions, deletions, replacements and swaps of neighbours between two names.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

// The name with the smallest distance (the first of equals), if it is at most a third of the word,
// or 2.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view word,
                                                      const std::vector<std::string>& names);

// `a, b, c`.
[[nodiscard]] std::string join(const std::vector<std::string>& words,
                               std::string_view between = ", ");

}  // namespace cambium::config
