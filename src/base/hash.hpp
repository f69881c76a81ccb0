// base/hash.hpp — content hashes (xxh3, 64 bits) for agreement between ranks, checksums and
// cutoffs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cambium {

[[nodiscard]] std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

[[nodiscard]] inline std::uint64_t hash_text(std::string_view text, std::uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}

// 16 lower-case hexadecimal digits.
[[nodiscard]] std::string hash_hex(std::uint64_t hash);

}  // namespace cambium
