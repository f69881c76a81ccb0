// checkpoint/hooks.hpp — named points of a write at which a test may stop, slow or kill the
// process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>

namespace cambium::checkpoint {

// Every point, in the order in which a write passes them. Those of "shard" are passed on each rank
// with slices, the others on rank 0; "shard.write.*" once per write call, "prune.remove.*" once per
// folder that is removed.
inline constexpr std::array kHookPoints = {
    "partial.before",     "partial.after",     "shard.create.before", "shard.create.after",
    "shard.write.before", "shard.write.after", "shard.close.before",  "shard.close.after",
    "shard.fsync.before", "shard.fsync.after", "model.write.before",  "model.write.after",
    "model.fsync.before", "model.fsync.after", "manifest.before",     "manifest.after",
    "rename.before",      "rename.after",      "latest.before",       "latest.linked",
    "latest.after",       "prune.before",      "prune.remove.before", "prune.remove.after",
    "prune.after"};

// Empty unless a test sets it. Set it before a write starts, never during one.
extern std::function<void(const char* point)> test_hook;

inline void pass_hook(const char* point) {
  if (test_hook) {
    test_hook(point);
  }
}

}  // namespace cambium::checkpoint
