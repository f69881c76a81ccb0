// checkpoint/inspect.hpp — what a checkpoint holds, for people and for programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/checkpoint.hpp"

namespace cambium::checkpoint {

// {path, step, run, version, bytes, files: [{name, bytes, xxh3}], elements, arrays: [{name, type,
// shape, bytes, attributes, slices}], state}.
[[nodiscard]] nlohmann::json inspect_json(const Checkpoint& checkpoint);
// The same as lines: head, files, one line an array, then the state as indented JSON.
[[nodiscard]] std::string inspect_text(const Checkpoint& checkpoint);

}  // namespace cambium::checkpoint
