// metrics/lines.hpp — files of lines, of which a kill may have left the last without its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cambium::metrics {

// The lines of a file without their line breaks, a last one without its end included; none when
// there is no file. Throws Error(bad_input) when it cannot be read.
[[nodiscard]] std::vector<std::string> read_lines(const std::filesystem::path& path);

// Cuts off what follows the last line break and returns it; empty when all is whole. Throws
// Error(storage).
std::string cut_torn_line(const std::filesystem::path& path);

}  // namespace cambium::metrics
