// data/token.hpp — token ids and the layout of a micro-batch.
// Bytes are ids 0 … 255; config::kMaskId and config::kPadId follow when a phase needs them.
// Layout: position-major, row = t * B + b: a slice of the sequence is a contiguous block of rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.hpp"

namespace cambium::data {

// A target that counts for nothing (kernels::kIgnore).
inline constexpr std::int32_t kIgnoreTarget = -100;

// The samples of a global batch that micro-batch `m` of logical data shard `shard` holds: shard i
// has the i-th of `shards` equal parts, in it micro-batches follow each other ascending.
struct BatchShape {
  dim_t global_batch_size = 0;
  dim_t micro_batch_size = 0;
  dim_t shards = 1;  // logical data

  [[nodiscard]] constexpr dim_t micro_batches_per_shard() const {
    return global_batch_size / (micro_batch_size * shards);
  }

  [[nodiscard]] constexpr Range samples(dim_t shard, dim_t m) const {
    const dim_t begin = (shard * micro_batches_per_shard() + m) * micro_batch_size;
    return {begin, begin + micro_batch_size};
  }
};

// Every id must lie in [0, vocabulary). Throws: Error(bad_input) `where: sample S, offset O: id I,
// expected 0 … V-1`. Sample and offset are those of the position-major layout with `batch` columns.
void check_ids(std::span<const std::int32_t> ids,
               dim_t batch,
               dim_t vocabulary,
               std::string_view where);

}  // namespace cambium::data
