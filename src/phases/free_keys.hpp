// phases/free_keys.hpp — the keys that may differ between two equal runs (design.md §1), as a run
// uses them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "phases/session.hpp"

namespace cambium::phases {

// Dotted key → value. The checkpoint stores it as state["free"]["keys"], so that a restart can say
// what changed.
[[nodiscard]] nlohmann::json free_keys(const Session& session);

// [{key, from, to}] of the keys that both name and that differ, sorted by key. A key that only one
// names came or went with a version of the program and is no change.
[[nodiscard]] nlohmann::json changed_keys(const nlohmann::json& from, const nlohmann::json& to);

}  // namespace cambium::phases
