// checkpoint/parse.hpp — a manifest's text and the checkpoint it describes, apart (internal): one
// rank reads, all parse.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace cambium::checkpoint {

// The manifest's text of a checkpoint that has all its files at their sizes. Throws
// Error(bad_input).
[[nodiscard]] std::string read_whole_checkpoint(const std::filesystem::path& path);

// Throws Error(bad_input).
[[nodiscard]] Checkpoint checkpoint_from_text(const std::filesystem::path& path,
                                              const std::string& text);

}  // namespace cambium::checkpoint
