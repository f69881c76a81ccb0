// base/file.hpp — files that are either whole or absent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cambium {

// Whole content. Throws Error(code) with path and errno's text.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

// Writes PATH.tmp, fsyncs it, renames it to PATH and fsyncs the folder: a reader never sees a half.
// Throws Error(storage) with path and errno's text.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Appends one line (newline added) with a single write(2); `durable` also fsyncs.
// Throws Error(storage).
enum class Durable { no, yes };
void append_line(const std::filesystem::path& path, std::string_view line, Durable durable);

// fsync of a folder, so that a rename in it survives a power cut. Throws Error(storage).
void sync_folder(const std::filesystem::path& folder);

}  // namespace cambium
