// tests/support/safetensors.hpp — reads the small safetensors files of tests/golden: F32 and I64
// tensors as fp64, which keeps every bit of an fp32 value and every id. Format: u64 little-endian
// header length; JSON header {name: {dtype, shape, data_offsets}}; the data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace cambium::testing {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // row-major
};

using Tensors = std::map<std::string, Tensor>;

namespace detail {

template <typename T>
std::vector<double> widen(const char* from, std::size_t bytes) {
  std::vector<T> raw(bytes / sizeof(T));
  std::memcpy(raw.data(), from, raw.size() * sizeof(T));
  return {raw.begin(), raw.end()};
}

}  // namespace detail

// Throws std::runtime_error naming the file.
[[nodiscard]] inline Tensors read_safetensors(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::uint64_t header = 0;
  if (file.size() < sizeof(header)) {
    throw std::runtime_error(path.string() + ": no safetensors file");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  const char* data = file.data() + sizeof(header) + header;
  Tensors out;
  const nlohmann::json entries = nlohmann::json::parse(file.substr(sizeof(header), header));
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      continue;
    }
    const std::size_t begin = entry.at("data_offsets").at(0);
    const std::size_t end = entry.at("data_offsets").at(1);
    if (sizeof(header) + header + end > file.size()) {
      throw std::runtime_error(path.string() + ": cut short at " + name);
    }
    Tensor t;
    t.shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const std::string type = entry.at("dtype");
    if (type == "F32") {
      t.values = detail::widen<float>(data + begin, end - begin);
    } else if (type == "I64") {
      t.values = detail::widen<std::int64_t>(data + begin, end - begin);
    } else {
      throw std::runtime_error(path.string() + ": " + name + " has the type " + type);
    }
    out.emplace(name, std::move(t));
  }
  return out;
}

}  // namespace cambium::testing
