// checkpoint/read.hpp — reading arrays, by any layout, straight from the shard files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/compare.hpp"

namespace cambium::checkpoint {

// Fills every target from the rectangles that overlap it, whoever wrote them. Straight into the
// target's memory; no buffer of ours; at most `transfer_limit` bytes a call. Each shard file is
// opened once. Throws Error(bad_input) naming array, dataset and file: no such array, outside its
// shape, another type, damaged file. Error(storage) when the disk fails.
void read_slices(const Checkpoint& checkpoint,
                 std::span<const Target> targets,
                 std::size_t transfer_limit = std::size_t{1} << 30);

// compare() of compare.hpp with read_slices as its reader.
[[nodiscard]] Comparison compare(const Checkpoint& a, const Checkpoint& b);

}  // namespace cambium::checkpoint
