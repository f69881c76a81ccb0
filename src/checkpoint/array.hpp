// checkpoint/array.hpp — the named arrays that a checkpoint holds, and the rectangles of them that
// a rank has in memory. The module knows nothing of models: a parameter, a moment and a threshold
// table are all arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace cambium::checkpoint {

enum class ElementType : std::uint8_t { f32, f64 };

[[nodiscard]] constexpr std::size_t bytes_of(ElementType type) {
  return type == ElementType::f64 ? 8 : 4;
}

// "f32", "f64": as the manifest writes them.
[[nodiscard]] const char* name_of(ElementType type);
// Throws Error(bad_input).
[[nodiscard]] ElementType element_type_of(std::string_view name);

// One array, whole. A vector of n elements has rows = 1, cols = n here and shape (n) in the files.
struct Array {
  std::string name;  // absolute: "/parameters/layers.0.mlp.up.weight", "/optimizer/exp_avg/NAME"
  ElementType type = ElementType::f32;
  dim_t rows = 0;
  dim_t cols = 0;
  bool vector = false;
  // Integers, floats or texts by name (uid, birth_step, updates); HDF5 attributes of the dataset in
  // model.h5.
  nlohmann::json attributes = nlohmann::json::object();

  bool operator==(const Array&) const = default;
};

// Rows and columns of an array, half-open; empty when either range is.
struct Rectangle {
  Range rows;
  Range cols;

  [[nodiscard]] constexpr bool empty() const {
    return rows.size() <= 0 || cols.size() <= 0;
  }

  [[nodiscard]] constexpr dim_t elements() const {
    return empty() ? 0 : rows.size() * cols.size();
  }

  constexpr bool operator==(const Rectangle&) const = default;
};

// A rectangle of an array in this rank's memory: row r of it starts at data + r * stride elements.
// Source is written from, Target is read into. Empty rectangles are allowed and ignored.
struct Source {
  std::string array;
  ElementType type = ElementType::f32;
  Rectangle part;
  const void* data = nullptr;
  dim_t stride = 0;
};

struct Target {
  std::string array;
  ElementType type = ElementType::f32;
  Rectangle part;
  void* data = nullptr;
  dim_t stride = 0;
};

// "(rows 0..4, cols 2..8)", or "(2..8)" in a vector: for messages.
[[nodiscard]] std::string text_of(const Rectangle& part, bool vector);
// "(4, 8)" or "(8)".
[[nodiscard]] std::string shape_text(const Array& array);

}  // namespace cambium::checkpoint
