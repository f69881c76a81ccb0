// checkpoint/layout.hpp — rectangles that tile an array, and how large transfers are cut. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/array.hpp"

namespace cambium::checkpoint {

// The first defect of a tiling: a part that nothing covers, one that two cover, or one outside the
// array.
struct TilingDefect {
  enum class Kind : std::uint8_t { missing, doubled, outside };
  Kind kind = Kind::missing;
  Rectangle part;
};

// nullopt when `parts` (no empty ones) cover every element of (rows, cols) exactly once. O(n log n)
// for row or column cuts.
[[nodiscard]] std::optional<TilingDefect> find_tiling_defect(dim_t rows,
                                                             dim_t cols,
                                                             std::span<const Rectangle> parts);

// "array '/a': rows 0..2, cols 3..4 are written by no rank": for messages.
[[nodiscard]] std::string text_of(const Array& array, const TilingDefect& defect);

[[nodiscard]] std::optional<Rectangle> intersect(const Rectangle& a, const Rectangle& b);

// Cuts `part` into blocks of at most `limit` bytes: by rows, and by columns where one row is
// larger. Row-major order.
[[nodiscard]] std::vector<Rectangle> split_transfer(const Rectangle& part,
                                                    std::size_t bytes_per_element,
                                                    std::size_t limit);

// Names are absolute HDF5 paths without empty, "." or ".." parts; no array's name is a folder of
// another's; shapes are not negative; a vector has one row. Throws Error(bug) naming the array.
void check_arrays(std::span<const Array> arrays);

}  // namespace cambium::checkpoint
