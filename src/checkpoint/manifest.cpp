// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <cmath>
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "checkpoint/layout.hpp"

namespace cambium::checkpoint {
namespace {

using nlohmann::json;

json to_json(const StoredArray& stored) {
  const Array& array = stored.array;
  json slices = json::array();
  for (const StoredSlice& s : stored.slices) {
    slices.push_back(
        {s.file, s.part.rows.begin, s.part.rows.end, s.part.cols.begin, s.part.cols.end});
  }
  return {{"name", array.name},
          {"type", name_of(array.type)},
          {"shape", array.vector ? json{array.cols} : json{array.rows, array.cols}},
          {"attributes", array.attributes},
          {"slices", std::move(slices)}};
}

StoredArray array_from_json(const json& j) {
  StoredArray stored;
  Array& array = stored.array;
  array.name = j.at("name").get<std::string>();
  array.type = element_type_of(j.at("type").get<std::string>());
  array.attributes = j.at("attributes");
  const auto shape = j.at("shape").get<std::vector<dim_t>>();
  if (shape.size() != 1 && shape.size() != 2) {
    throw Error(Code::bad_input,
                fmt::format("array '{}': {} axes, expected 1 or 2", array.name, shape.size()));
  }
  array.vector = shape.size() == 1;
  array.rows = array.vector ? 1 : shape[0];
  array.cols = shape.back();
  for (const json& s : j.at("slices")) {
    const auto v = s.get<std::vector<std::int64_t>>();
    if (v.size() != 5 || v[0] < 0) {
      throw Error(Code::bad_input,
                  fmt::format("array '{}': a slice is [file, row, row end, column, column end]",
                              array.name));
    }
    stored.slices.push_back({static_cast<std::size_t>(v[0]), {{v[1], v[2]}, {v[3], v[4]}}});
  }
  return stored;
}

FileRecord file_from_json(const json& j) {
  FileRecord record;
  record.name = j.at("name").get<std::string>();
  record.bytes = j.at("bytes").get<std::int64_t>();
  const auto digits = j.at("xxh3").get<std::string>();
  std::size_t used = 0;
  record.checksum = std::stoull(digits, &used, 16);
  const bool plain = record.name.find('/') == std::string::npos && !record.name.empty();
  if (used != 16 || digits.size() != 16 || record.bytes < 0 || !plain) {
    throw Error(Code::bad_input, fmt::format("file '{}': bad record", record.name));
  }
  return record;
}

void check_version(const json& j) {
  const auto format = j.at("format").get<std::string>();
  if (format != kFormatName) {
    throw Error(Code::bad_input, fmt::format("format '{}', expected '{}'", format, kFormatName));
  }
  const auto version = j.at("version").get<int>();
  if (version < 1 || version > kFormatVersion) {
    throw Error(Code::bad_input,
                fmt::format("format version {}, this program reads 1 to {}; use a newer build",
                            version,
                            kFormatVersion));
  }
}

void check_finite_below(const json& value, const std::string& path) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw Error(
        Code::bug,
        fmt::format("checkpoint: {}: {} cannot be stored in JSON", path, value.get<double>()));
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      check_finite_below(item, path + "." + key);
    }
  }
  if (value.is_array()) {
    std::size_t i = 0;
    for (const json& item : value) {
      check_finite_below(item, fmt::format("{}[{}]", path, i++));
    }
  }
}

}  // namespace

std::string dataset_name(const std::string& array, const Rectangle& part) {
  return fmt::format(
      "{}/r{}_{}_c{}_{}", array, part.rows.begin, part.rows.end, part.cols.begin, part.cols.end);
}

std::string shard_name(int rank) {
  return fmt::format("shard-{:05}.h5", rank);
}

void check_finite(const json& state) {
  check_finite_below(state, "state");
}

void Manifest::check_invariants() const {
  std::vector<Array> plain;
  plain.reserve(arrays.size());
  for (const StoredArray& stored : arrays) {
    plain.push_back(stored.array);
    std::vector<Rectangle> parts;
    parts.reserve(stored.slices.size());
    for (const StoredSlice& slice : stored.slices) {
      if (slice.file >= files.size()) {
        throw Error(Code::bad_input,
                    fmt::format("array '{}': a slice names file {} of {}",
                                stored.array.name,
                                slice.file,
                                files.size()));
      }
      parts.push_back(slice.part);
    }
    if (const auto defect = find_tiling_defect(stored.array.rows, stored.array.cols, parts)) {
      throw Error(Code::bad_input, text_of(stored.array, *defect));
    }
  }
  try {
    check_arrays(plain);
  } catch (const Error& e) {
    throw Error(Code::bad_input, e.what());
  }
}

std::string to_text(const Manifest& manifest) {
  json files = json::array();
  for (const FileRecord& f : manifest.files) {
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"xxh3", hash_hex(f.checksum)}});
  }
  // One line an array: a person can read it, a large model does not make a million lines.
  std::string text = fmt::format(
      "{{\n\"format\": {},\n\"version\": {},\n\"step\": {},\n\"run\": {},\n\"files\": {},\n"
      "\"state\": {},\n\"arrays\": [",
      json(kFormatName).dump(),
      kFormatVersion,
      manifest.step,
      json(manifest.run).dump(),
      files.dump(),
      manifest.state.dump());
  const char* separator = "\n";
  for (const StoredArray& stored : manifest.arrays) {
    text += separator + to_json(stored).dump();
    separator = ",\n";
  }
  text += "\n]\n}\n";
  return text;
}

Manifest manifest_from_text(std::string_view text, const std::string& where) {
  try {
    const json j = json::parse(text);
    check_version(j);
    Manifest manifest;
    manifest.step = j.at("step").get<dim_t>();
    manifest.run = j.at("run").get<std::string>();
    manifest.state = j.at("state");
    for (const json& f : j.at("files")) {
      manifest.files.push_back(file_from_json(f));
    }
    for (const json& a : j.at("arrays")) {
      manifest.arrays.push_back(array_from_json(a));
    }
    manifest.check_invariants();
    return manifest;
  } catch (const std::exception& e) {
    // Of nlohmann's parse errors, of std::stoull and of our own checks alike the text is the useful
    // part.
    throw Error(Code::bad_input, where + ": not a usable manifest: " + e.what());
  }
}

}  // namespace cambium::checkpoint
