// checkpoint/shard_file.hpp — the HDF5 file of one writing rank (internal).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>

#include "checkpoint/manifest.hpp"

namespace cambium::checkpoint {

// A slice with the array that it belongs to.
struct Placed {
  const Array* array;
  const Source* source;
};

// Writes FILE: one contiguous dataset per slice, named dataset_name(array, part); then its
// checksum; then fsync. A slice whose rows are adjacent in memory is written from where it lies;
// others are packed 4 MiB at a time. Throws Error(storage) naming file and dataset; the rest of
// the file is then the caller's to remove.
[[nodiscard]] FileRecord write_shard(const std::filesystem::path& file,
                                     dim_t step,
                                     std::span<const Placed> slices,
                                     std::size_t transfer_limit);

}  // namespace cambium::checkpoint
