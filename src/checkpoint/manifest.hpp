// checkpoint/manifest.hpp — manifest.json: what a checkpoint holds, where each rectangle lies, and
// the checksum of each file. It is written last: a folder without it is not a checkpoint. Format:
// src/checkpoint/README.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/array.hpp"

namespace cambium::checkpoint {

inline constexpr int kFormatVersion = 1;
inline constexpr const char* kFormatName = "cambium checkpoint";
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kModelFile = "model.h5";

struct FileRecord {
  std::string name;  // relative to the checkpoint's folder
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  // xxh3, 64 bits, of all its bytes (`xxhsum -H3` prints the same)

  bool operator==(const FileRecord&) const = default;
};

// One rectangle of an array and the file it lies in; its dataset is dataset_name(array, part).
struct StoredSlice {
  std::size_t file = 0;  // index into Manifest::files
  Rectangle part;

  bool operator==(const StoredSlice&) const = default;
};

struct StoredArray {
  Array array;
  std::vector<StoredSlice> slices;  // tile the array exactly; ordered by (row, col)

  bool operator==(const StoredArray&) const = default;
};

struct Manifest {
  dim_t step = 0;
  std::string run;  // identity of the run that wrote it; pruning touches no other run's checkpoints
  std::vector<FileRecord> files;
  std::vector<StoredArray> arrays;
  nlohmann::json state = nlohmann::json::object();

  bool operator==(const Manifest&) const = default;

  // Throws Error(bad_input) naming the array or file: names, shapes, tiling, indices.
  void check_invariants() const;
};

// "/parameters/norm.weight" + rows 0..1, cols 0..64 → "/parameters/norm.weight/r0_1_c0_64".
[[nodiscard]] std::string dataset_name(const std::string& array, const Rectangle& part);
// "shard-00003.h5" for the file of rank 3.
[[nodiscard]] std::string shard_name(int rank);

[[nodiscard]] std::string to_text(const Manifest& manifest);
// `where` names the file in messages. Throws Error(bad_input): not JSON, another format, a newer
// version, broken invariants.
[[nodiscard]] Manifest manifest_from_text(std::string_view text, const std::string& where);

// JSON holds no NaN or infinity and would store null for it. Throws Error(bug) naming the key.
void check_finite(const nlohmann::json& state);

}  // namespace cambium::checkpoint
