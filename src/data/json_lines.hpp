// data/json_lines.hpp — texts, one JSON object a line: {"text": …} or {"text": …, "label": …}.
// Further fields are allowed. Line ends LF or CR LF; a last line without one counts; blank lines
// are skipped but counted in line numbers. Half a surrogate pair (\ud800) becomes U+FFFD and is
// counted; bytes that are no UTF-8 are refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace cambium::data {

struct TextRecord {
  std::string text;
  std::string label;      // empty when labels were not asked for
  std::int64_t line = 0;  // from 1
};

enum class Labels { required, ignored };

struct JsonLines {
  std::vector<TextRecord> records;
  dim_t replaced = 0;        // lone surrogates that became U+FFFD
  dim_t first_replaced = 0;  // line of the first of them
};

// Throws: Error(bad_input) `file:line:column: …` for a line that is no JSON object with the fields;
// with the path and the count 0 for a file without records; for one that is absent, no regular file
// or unreadable.
[[nodiscard]] JsonLines read_json_lines(const std::filesystem::path& path, Labels labels);

// The same from text; `path` names it in messages.
[[nodiscard]] JsonLines parse_json_lines(std::string text,
                                         const std::filesystem::path& path,
                                         Labels labels);

}  // namespace cambium::data
