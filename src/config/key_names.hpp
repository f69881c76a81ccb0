// config/key_names.hpp — the dotted path of every key there is, for hints about keys in a wrong
// section.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cambium::config {

// In the order of the file; those of a phase are `phases.*.KEY`.
[[nodiscard]] const std::vector<std::string>& all_key_paths();

}  // namespace cambium::config
