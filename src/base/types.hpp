// base/types.hpp — the sizes and ranges that every module speaks of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace cambium {

// Sizes, counts and indices. 64 bits everywhere: L * B * H * T * T passes 2^31 early.
using dim_t = std::int64_t;

// Half-open range [begin, end).
struct Range {
  dim_t begin = 0;
  dim_t end = 0;

  [[nodiscard]] constexpr dim_t size() const {
    return end - begin;
  }

  [[nodiscard]] constexpr bool contains(dim_t i) const {
    return begin <= i && i < end;
  }

  constexpr bool operator==(const Range&) const = default;
};

// Share i of n units cut over `parts`: floor(i*n/parts) … floor((i+1)*n/parts). Source: design.md
// §1.
[[nodiscard]] constexpr Range share(dim_t n, dim_t parts, dim_t i) {
  return {i * n / parts, (i + 1) * n / parts};
}

[[nodiscard]] constexpr dim_t ceil_div(dim_t a, dim_t b) {
  return (a + b - 1) / b;
}

}  // namespace cambium
