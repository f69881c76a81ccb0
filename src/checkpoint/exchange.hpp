// checkpoint/exchange.hpp — small messages between the ranks that write or open a checkpoint
// (internal).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace cambium::checkpoint {

// Rank 0's text on every rank. Collective over: group.
void broadcast_text(comm::Group& group, std::string& text);

// Each rank's numbers on every rank, by rank; their counts may differ. Collective over: group.
[[nodiscard]] std::vector<std::vector<std::int64_t>> gather_numbers(
    comm::Group& group, std::span<const std::int64_t> mine);

// The texts of all ranks, by rank, on every rank. Collective over: group.
[[nodiscard]] std::string gather_text(comm::Group& group, const std::string& mine);

// "a\nb\n" → {"a", "b"}.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace cambium::checkpoint
