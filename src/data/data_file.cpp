// SPDX-License-Identifier: Apache-2.0
#include "data/data_file.hpp"

#include <fmt/format.h>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"

namespace cambium::data {

std::string read_data_file(const std::filesystem::path& path, std::string_view unit) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    const bool is_pattern = path.string().find_first_of("*?") != std::string::npos;
    throw Error(Code::bad_input,
                fmt::format("{}: no such file, expected a file with {}{}",
                            path.string(),
                            unit,
                            is_pattern ? "; patterns are not expanded, name one file" : ""));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(Code::bad_input,
                fmt::format("{}: {}, expected a regular file with {}",
                            path.string(),
                            std::filesystem::is_directory(status) ? "a folder" : "no regular file",
                            unit));
  }
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& e) {
    throw Error(Code::bad_input, e.what());
  }
  if (text.empty()) {
    throw Error(
        Code::bad_input,
        fmt::format("{}: the file is empty: 0 {}, expected at least 1", path.string(), unit));
  }
  return text;
}

void normalise_line_ends(std::string& text) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < text.size(); ++from) {
    if (text[from] == '\r' && from + 1 < text.size() && text[from + 1] == '\n') {
      continue;
    }
    text[to++] = text[from];
  }
  text.resize(to);
}

}  // namespace cambium::data
