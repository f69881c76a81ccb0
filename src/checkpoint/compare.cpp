// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/compare.hpp"

#include <cstring>
#include <fmt/format.h>

#include "checkpoint/layout.hpp"

namespace cambium::checkpoint {
namespace {

using nlohmann::json;

constexpr std::size_t kBlockBytes = std::size_t{16} << 20;
constexpr const char* kFreeKey = "free";

std::string short_text(const json& value) {
  std::string text = value.dump();
  if (text.size() > 80) {
    text = text.substr(0, 77) + "...";
  }
  return text;
}

void compare_json(const json& a,
                  const json& b,
                  const std::string& path,
                  std::vector<std::string>& out) {
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.items()) {
      const std::string below = path + "." + key;
      const auto other = b.find(key);
      if (other == b.end()) {
        out.push_back(fmt::format("{}: {} and absent", below, short_text(value)));
      } else {
        compare_json(value, *other, below, out);
      }
    }
    for (const auto& [key, value] : b.items()) {
      if (!a.contains(key)) {
        out.push_back(fmt::format("{}.{}: absent and {}", path, key, short_text(value)));
      }
    }
    return;
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      compare_json(a[i], b[i], fmt::format("{}[{}]", path, i), out);
    }
    return;
  }
  // nlohmann calls 1 and 1.0 equal; signedness of an integer is no difference, being whole is.
  if (a != b || a.is_number_float() != b.is_number_float()) {
    out.push_back(fmt::format("{}: {} and {}", path, short_text(a), short_text(b)));
  }
}

json without_free(const json& state) {
  json rest = state;
  if (rest.is_object()) {
    rest.erase(kFreeKey);
  }
  return rest;
}

// The first differing element of one array, and how many differ.
struct ElementDifference {
  dim_t count = 0;
  std::string first;
};

template <typename T>
void compare_block(const Array& array,
                   const Rectangle& block,
                   const std::vector<char>& a,
                   const std::vector<char>& b,
                   ElementDifference& out) {
  for (dim_t i = 0; i < block.elements(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * sizeof(T);
    if (std::memcmp(a.data() + at, b.data() + at, sizeof(T)) == 0) {
      continue;
    }
    if (out.count++ == 0) {
      T x{};
      T y{};
      std::memcpy(&x, a.data() + at, sizeof(T));
      std::memcpy(&y, b.data() + at, sizeof(T));
      const dim_t row = block.rows.begin + i / block.cols.size();
      const dim_t col = block.cols.begin + i % block.cols.size();
      const std::string index =
          array.vector ? fmt::format("[{}]", col) : fmt::format("[{}, {}]", row, col);
      out.first = fmt::format(
          "element {}: {:.17g} and {:.17g}", index, static_cast<double>(x), static_cast<double>(y));
    }
  }
}

ElementDifference compare_elements(const Array& array,
                                   const Checkpoint& a,
                                   const Checkpoint& b,
                                   const Reader& read) {
  ElementDifference out;
  const std::size_t width = bytes_of(array.type);
  const Rectangle whole{{0, array.rows}, {0, array.cols}};
  std::vector<char> of_a;
  std::vector<char> of_b;
  for (const Rectangle& block : split_transfer(whole, width, kBlockBytes)) {
    const std::size_t bytes = static_cast<std::size_t>(block.elements()) * width;
    of_a.resize(bytes);
    of_b.resize(bytes);
    const Target to_a{array.name, array.type, block, of_a.data(), block.cols.size()};
    const Target to_b{array.name, array.type, block, of_b.data(), block.cols.size()};
    read(a, std::span(&to_a, 1));
    read(b, std::span(&to_b, 1));
    if (std::memcmp(of_a.data(), of_b.data(), bytes) == 0) {
      continue;
    }
    if (array.type == ElementType::f64) {
      compare_block<double>(array, block, of_a, of_b, out);
    } else {
      compare_block<float>(array, block, of_a, of_b, out);
    }
  }
  return out;
}

// Appends to `result` what differs in one array that both sides have.
void compare_array(const StoredArray& of_a,
                   const StoredArray& of_b,
                   const Checkpoint& a,
                   const Checkpoint& b,
                   const Reader& read,
                   Comparison& result) {
  const Array& x = of_a.array;
  const Array& y = of_b.array;
  const std::size_t before = result.differences.size();
  ++result.arrays_compared;
  compare_json(x.attributes, y.attributes, x.name + ": attribute", result.differences);
  if (x.type != y.type) {
    result.differences.push_back(
        fmt::format("{}: type {} and {}", x.name, name_of(x.type), name_of(y.type)));
  }
  const bool same_shape = x.rows == y.rows && x.cols == y.cols && x.vector == y.vector;
  if (!same_shape) {
    result.differences.push_back(
        fmt::format("{}: shape {} and {}", x.name, shape_text(x), shape_text(y)));
  }
  if (same_shape && x.type == y.type) {
    const ElementDifference elements = compare_elements(x, a, b, read);
    const dim_t all = x.rows * x.cols;
    result.elements_compared += all;
    result.elements_differing += elements.count;
    if (elements.count > 0) {
      result.differences.push_back(fmt::format(
          "{}: {}; {} of {} elements differ", x.name, elements.first, elements.count, all));
    }
  }
  result.arrays_differing += result.differences.size() > before ? 1 : 0;
}

}  // namespace

std::vector<std::string> compare_state(const json& a, const json& b) {
  std::vector<std::string> out;
  compare_json(without_free(a), without_free(b), "state", out);
  return out;
}

Comparison compare(const Checkpoint& a, const Checkpoint& b, const Reader& read) {
  Comparison result;
  if (a.step() != b.step()) {
    result.differences.push_back(fmt::format("step: {} and {}", a.step(), b.step()));
  }
  for (std::string& line : compare_state(a.state(), b.state())) {
    result.differences.push_back(std::move(line));
  }
  for (const StoredArray& of_a : a.manifest.arrays) {
    if (b.find(of_a.array.name) == nullptr) {
      result.differences.push_back(fmt::format("{}: only in {}", of_a.array.name, a.path.string()));
      ++result.arrays_differing;
    }
  }
  for (const StoredArray& of_b : b.manifest.arrays) {
    if (a.find(of_b.array.name) == nullptr) {
      result.differences.push_back(fmt::format("{}: only in {}", of_b.array.name, b.path.string()));
      ++result.arrays_differing;
    }
  }
  for (const StoredArray& of_a : a.manifest.arrays) {
    if (const StoredArray* of_b = b.find(of_a.array.name)) {
      compare_array(of_a, *of_b, a, b, read, result);
    }
  }
  return result;
}

}  // namespace cambium::checkpoint
