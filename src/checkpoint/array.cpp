// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/array.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::checkpoint {

const char* name_of(ElementType type) {
  return type == ElementType::f64 ? "f64" : "f32";
}

ElementType element_type_of(std::string_view name) {
  if (name == "f32") {
    return ElementType::f32;
  }
  if (name == "f64") {
    return ElementType::f64;
  }
  throw Error(Code::bad_input, fmt::format("element type '{}', expected f32 or f64", name));
}

std::string text_of(const Rectangle& part, bool vector) {
  const std::string cols = fmt::format("{}..{}", part.cols.begin, part.cols.end);
  if (vector) {
    return fmt::format("({})", cols);
  }
  return fmt::format("(rows {}..{}, cols {})", part.rows.begin, part.rows.end, cols);
}

std::string shape_text(const Array& array) {
  return array.vector ? fmt::format("({})", array.cols)
                      : fmt::format("({}, {})", array.rows, array.cols);
}

}  // namespace cambium::checkpoint
