// data/data_file.hpp — reads a data file whole, with a plain message for what people get wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cambium::data {

// Throws: Error(bad_input) for a path that is absent, no regular file, or unreadable; for an empty
// file with `unit` 0.
[[nodiscard]] std::string read_data_file(const std::filesystem::path& path, std::string_view unit);

// CR LF becomes LF, in place; a lone CR stays.
void normalise_line_ends(std::string& text);

}  // namespace cambium::data
