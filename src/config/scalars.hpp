// config/scalars.hpp — numbers, times and sizes from text and back, without any locale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cambium::config {

// Decimal, with or without point and exponent: 1e-4, 1.e-4, .0001, +1e-4, 007. None for anything
// else (hexadecimal, octal, inf, nan, separators) and for what no double holds.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

// A whole number; leading zeros are decimal; 1e9 and 2.5e3 where whole (below 2^53).
[[nodiscard]] std::optional<std::int64_t> parse_count(std::string_view text);

// All 64 bits, digits only.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// 90, 1.5, 1:30 (m:ss), 1:30:00 (h:mm:ss).
[[nodiscard]] std::optional<double> parse_seconds(std::string_view text);

// 4096, 64KiB, 80GiB, 1.5TB (K, M, G, T, P; with `i` powers of 1024, without powers of 1000), where
// whole.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text);

// The shortest text that reads back as the same double.
[[nodiscard]] std::string format_number(double value);

}  // namespace cambium::config
