// checkpoint/folder.hpp — the folder of checkpoints: names, the `latest` link, publishing and
// pruning. Local functions.
//   step-00000100          complete (published by one rename)
//   step-00000100.partial  being written, or the rest of a write that failed
//   step-00000100.removed  on its way out
//   latest                 symbolic link to a name of the first kind
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::checkpoint {

// Which checkpoints stay when a new one is there.
struct Retention {
  dim_t keep_last = 0;        // complete ones, the new one included; < 1: all stay
  dim_t keep_every = 0;       // steps divisible by it stay for good; < 1: no such rule
  std::vector<dim_t> pinned;  // stay whatever the rules say
};

inline constexpr const char* kLatestLink = "latest";
inline constexpr const char* kPartialSuffix = ".partial";
inline constexpr const char* kRemovedSuffix = ".removed";

[[nodiscard]] std::string step_name(dim_t step);     // "step-00000100"
[[nodiscard]] std::string partial_name(dim_t step);  // "step-00000100.partial"
[[nodiscard]] std::string removed_name(dim_t step);  // "step-00000100.removed"
// The step of a name of exactly the form that step_name makes (plus `suffix`).
[[nodiscard]] std::optional<dim_t> step_of_name(const std::string& name,
                                                const std::string& suffix = "");

// Steps of all entries step-N + suffix, ascending. Empty when the folder is absent. Throws
// Error(storage).
[[nodiscard]] std::vector<dim_t> list_steps(const std::filesystem::path& folder,
                                            const std::string& suffix = "");

// Makes an empty step-N.partial, removing what a failed write left. Throws Error(storage).
void start_partial(const std::filesystem::path& folder, dim_t step);

// Renames step-N.partial to step-N and syncs the folder. A step-N that is there already is
// exchanged in one system call and then removed: at every instant one of the two is whole under a
// name that find_latest sees. Throws Error(storage).
void publish(const std::filesystem::path& folder, dim_t step);

// Points `latest` at step-N by a rename. Throws Error(storage).
void move_latest(const std::filesystem::path& folder, dim_t step);

// Removes complete checkpoints of the same run and lower step that `retention` does not keep, and
// leftovers (.partial, .removed) of lower or equal step. Never touches the new one, pinned ones,
// higher steps, other runs' and damaged ones. Returns warnings: what was left alone though it looks
// like a checkpoint, what could not be removed. Never throws for them.
[[nodiscard]] std::vector<std::string> prune(const std::filesystem::path& folder,
                                             dim_t new_step,
                                             const std::string& run,
                                             const Retention& retention);

}  // namespace cambium::checkpoint
