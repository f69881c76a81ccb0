// SPDX-License-Identifier: Apache-2.0
#include "config/nearest.hpp"

#include <algorithm>

namespace cambium::config {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> table((a.size() + 1) * columns);
  const auto cell = [&](std::size_t i, std::size_t j) -> int& { return table[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cell(i, j) = static_cast<int>(i + j);
        continue;
      }
      const int replace = cell(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      cell(i, j) = std::min({cell(i - 1, j) + 1, cell(i, j - 1) + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cell(i, j) = std::min(cell(i, j), cell(i - 2, j - 2) + 1);
      }
    }
  }
  return table.back();
}

std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& names) {
  int best = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  std::optional<std::string> found;
  for (const std::string& name : names) {
    const int distance = edit_distance(word, name);
    // A short word is within two edits of almost anything.
    if (distance < best && distance < static_cast<int>(std::max(word.size(), name.size()))) {
      best = distance;
      found = name;
    }
  }
  return found;
}

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) {
      out += between;
    }
    out += word;
  }
  return out;
}

}  // namespace cambium::config
