// checkpoint/compare.hpp — are two checkpoints the same bits, and if not, where first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace cambium::checkpoint {

struct Comparison {
  // One line each, in order: step, state keys, arrays of one side only, then per array type, shape,
  // attributes, elements
  // ("/a: element [3, 7]: 1.0000000000000002 and 1; 12 of 4096 elements differ").
  std::vector<std::string> differences;
  dim_t arrays_compared = 0;
  dim_t arrays_differing = 0;
  dim_t elements_compared = 0;
  dim_t elements_differing = 0;

  [[nodiscard]] bool equal() const {
    return differences.empty();
  }
};

using Reader = std::function<void(const Checkpoint&, std::span<const Target>)>;

// Compares step, state (without state["free"], which holds what is free: physical layout, attempt,
// host, time), the set of arrays, their types, shapes and attributes, and their elements bit by bit
// (NaN equals the same NaN, 0 differs from -0). Elements travel in blocks of at most 16 MiB. Throws
// what `read` throws.
[[nodiscard]] Comparison compare(const Checkpoint& a, const Checkpoint& b, const Reader& read);

// Paths of the keys whose values differ: "state.contract.seed: 1 and 2". Numbers compare by value
// and type.
[[nodiscard]] std::vector<std::string> compare_state(const nlohmann::json& a,
                                                     const nlohmann::json& b);

}  // namespace cambium::checkpoint
