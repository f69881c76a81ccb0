// checkpoint/checkpoint.hpp — opening, finding and verifying checkpoints. Needs no HDF5; reading
// arrays is read.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "comm/group.hpp"

namespace cambium::checkpoint {

// One complete checkpoint on disk. A value: holds no file open.
struct Checkpoint {
  std::filesystem::path path;
  Manifest manifest;
  std::unordered_map<std::string, std::size_t> index;  // array name → position in manifest.arrays

  [[nodiscard]] dim_t step() const {
    return manifest.step;
  }

  [[nodiscard]] const nlohmann::json& state() const {
    return manifest.state;
  }

  // nullptr when there is none of that name.
  [[nodiscard]] const StoredArray* find(const std::string& name) const;
  // Throws Error(bad_input) naming array and checkpoint.
  [[nodiscard]] const StoredArray& at(const std::string& name) const;
};

// Reads the manifest; checks that every file exists with the recorded size and that a folder named
// step-N holds step N. Throws Error(bad_input) naming what is missing or damaged.
[[nodiscard]] Checkpoint open_checkpoint(const std::filesystem::path& path);
// The same, read by rank 0 and broadcast. Collective over: group.
[[nodiscard]] Checkpoint open_checkpoint(comm::Group& group, const std::filesystem::path& path);

// Every damaged file in words ("step-00000010/shard-00001.h5: checksum …, expected …"); empty when
// all checksums hold.
[[nodiscard]] std::vector<std::string> verify(const Checkpoint& checkpoint);
// Files are divided over the ranks; all ranks get the whole list. Collective over: group.
[[nodiscard]] std::vector<std::string> verify(comm::Group& group, const Checkpoint& checkpoint);

enum class Check : std::uint8_t { sizes, checksums };

struct Latest {
  std::optional<Checkpoint> checkpoint;  // empty: there has never been a complete checkpoint here
  std::vector<std::string>
      warnings;  // one line each: a broken link, a damaged checkpoint passed over, a leftover
};

// Follows `latest` in `folder` (RUN/checkpoints); when that is missing or damaged, the newest
// complete checkpoint, with a warning naming what is wrong with each one passed over. Nothing is
// changed on disk. Never silently fresh: throws Error(bad_input) when there are checkpoints but
// none is whole.
[[nodiscard]] Latest find_latest(const std::filesystem::path& folder,
                                 Check check = Check::checksums);
// Collective over: group; every rank gets the same result.
[[nodiscard]] Latest find_latest(comm::Group& group,
                                 const std::filesystem::path& folder,
                                 Check check = Check::checksums);

// xxh3 of a file's bytes. Throws Error(storage) with errno's text.
[[nodiscard]] FileRecord record_of_file(const std::filesystem::path& path);

}  // namespace cambium::checkpoint
