// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layout.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "base/error.hpp"

namespace cambium::checkpoint {
namespace {

// The columns of one band of rows, cut into the ranges of the rectangles that cross it (ascending
// by begin).
std::optional<TilingDefect> defect_in_band(Range rows, dim_t cols, std::span<const Range> cuts) {
  dim_t covered = 0;
  for (const Range& cut : cuts) {
    if (cut.begin > covered) {
      return TilingDefect{TilingDefect::Kind::missing, {rows, {covered, cut.begin}}};
    }
    if (cut.begin < covered) {
      return TilingDefect{TilingDefect::Kind::doubled,
                          {rows, {cut.begin, std::min(covered, cut.end)}}};
    }
    covered = cut.end;
  }
  if (covered < cols) {
    return TilingDefect{TilingDefect::Kind::missing, {rows, {covered, cols}}};
  }
  return std::nullopt;
}

std::vector<dim_t> row_breaks(dim_t rows, std::span<const Rectangle> parts) {
  std::vector<dim_t> breaks = {0, rows};
  for (const Rectangle& part : parts) {
    breaks.push_back(part.rows.begin);
    breaks.push_back(part.rows.end);
  }
  std::sort(breaks.begin(), breaks.end());
  breaks.erase(std::unique(breaks.begin(), breaks.end()), breaks.end());
  return breaks;
}

}  // namespace

std::optional<TilingDefect> find_tiling_defect(dim_t rows,
                                               dim_t cols,
                                               std::span<const Rectangle> parts) {
  for (const Rectangle& part : parts) {
    const bool inside = part.rows.begin >= 0 && part.rows.end <= rows && part.cols.begin >= 0 &&
                        part.cols.end <= cols && !part.empty();
    if (!inside) {
      return TilingDefect{TilingDefect::Kind::outside, part};
    }
  }
  if (rows == 0 || cols == 0) {
    return std::nullopt;
  }
  std::vector<Rectangle> waiting(parts.begin(), parts.end());
  std::sort(waiting.begin(), waiting.end(), [](const Rectangle& a, const Rectangle& b) {
    return a.rows.begin < b.rows.begin;
  });
  const std::vector<dim_t> breaks = row_breaks(rows, parts);
  std::vector<Rectangle> active;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < breaks.size(); ++i) {
    const Range band{breaks[i], breaks[i + 1]};
    std::erase_if(active, [&](const Rectangle& part) { return part.rows.end <= band.begin; });
    while (next < waiting.size() && waiting[next].rows.begin == band.begin) {
      active.push_back(waiting[next++]);
    }
    std::vector<Range> cuts;
    cuts.reserve(active.size());
    for (const Rectangle& part : active) {
      cuts.push_back(part.cols);
    }
    std::sort(
        cuts.begin(), cuts.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    if (auto defect = defect_in_band(band, cols, cuts)) {
      return defect;
    }
  }
  return std::nullopt;
}

std::string text_of(const Array& array, const TilingDefect& defect) {
  const std::string part = text_of(defect.part, array.vector);
  switch (defect.kind) {
    case TilingDefect::Kind::missing:
      return fmt::format(
          "array '{}' {}: {} is covered by no slice", array.name, shape_text(array), part);
    case TilingDefect::Kind::doubled:
      return fmt::format(
          "array '{}' {}: {} is covered by two slices", array.name, shape_text(array), part);
    case TilingDefect::Kind::outside:
      break;
  }
  return fmt::format("array '{}' {}: slice {} lies outside", array.name, shape_text(array), part);
}

std::optional<Rectangle> intersect(const Rectangle& a, const Rectangle& b) {
  const Rectangle both{{std::max(a.rows.begin, b.rows.begin), std::min(a.rows.end, b.rows.end)},
                       {std::max(a.cols.begin, b.cols.begin), std::min(a.cols.end, b.cols.end)}};
  return both.empty() ? std::nullopt : std::optional(both);
}

std::vector<Rectangle> split_transfer(const Rectangle& part,
                                      std::size_t bytes_per_element,
                                      std::size_t limit) {
  std::vector<Rectangle> blocks;
  if (part.empty()) {
    return blocks;
  }
  const auto most = std::max<dim_t>(1, static_cast<dim_t>(limit / bytes_per_element));
  const dim_t width = std::min(part.cols.size(), most);
  // Where a row is cut, a block is one row: only then is it contiguous in a file of whole rows.
  const dim_t height = width < part.cols.size() ? 1 : std::max<dim_t>(1, most / width);
  for (dim_t row = part.rows.begin; row < part.rows.end; row += height) {
    const Range rows{row, std::min(row + height, part.rows.end)};
    for (dim_t col = part.cols.begin; col < part.cols.end; col += width) {
      blocks.push_back({rows, {col, std::min(col + width, part.cols.end)}});
    }
  }
  return blocks;
}

void check_arrays(std::span<const Array> arrays) {
  std::set<std::string> names;
  for (const Array& array : arrays) {
    const std::string& name = array.name;
    // Between slashes there is something that HDF5 takes for a name.
    const std::string closed = name + "/";
    const bool well_formed = name.starts_with("/") && closed.find("//") == std::string::npos &&
                             closed.find("/./") == std::string::npos &&
                             closed.find("/../") == std::string::npos &&
                             name.find('\0') == std::string::npos;
    if (!well_formed) {
      throw Error(Code::bug,
                  fmt::format("checkpoint: array name '{}', expected /FOLDER/…/NAME", name));
    }
    if (array.rows < 0 || array.cols < 0 || (array.vector && array.rows != 1)) {
      throw Error(Code::bug,
                  fmt::format("checkpoint: array '{}': {} rows and {} columns, expected none "
                              "negative and one row in a vector",
                              name,
                              array.rows,
                              array.cols));
    }
    if (!names.insert(name).second) {
      throw Error(Code::bug, fmt::format("checkpoint: array '{}' is listed twice", name));
    }
  }
  for (const std::string& name : names) {
    const auto below = names.lower_bound(name + "/");
    if (below != names.end() && below->starts_with(name + "/")) {
      throw Error(Code::bug,
                  fmt::format("checkpoint: array '{}' is also a folder of '{}'", name, *below));
    }
  }
}

}  // namespace cambium::checkpoint
