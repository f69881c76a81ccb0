// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.hpp"

#include <fmt/format.h>

#include "base/hash.hpp"

namespace cambium::checkpoint {
namespace {

using nlohmann::json;

std::int64_t bytes_of_array(const Array& array) {
  return array.rows * array.cols * static_cast<std::int64_t>(bytes_of(array.type));
}

struct Totals {
  std::int64_t file_bytes = 0;
  std::int64_t elements = 0;
};

Totals totals_of(const Manifest& manifest) {
  Totals totals;
  for (const FileRecord& file : manifest.files) {
    totals.file_bytes += file.bytes;
  }
  for (const StoredArray& stored : manifest.arrays) {
    totals.elements += stored.array.rows * stored.array.cols;
  }
  return totals;
}

}  // namespace

json inspect_json(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  const Totals totals = totals_of(manifest);
  json files = json::array();
  for (const FileRecord& f : manifest.files) {
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"xxh3", hash_hex(f.checksum)}});
  }
  json arrays = json::array();
  for (const StoredArray& stored : manifest.arrays) {
    const Array& a = stored.array;
    arrays.push_back({{"name", a.name},
                      {"type", name_of(a.type)},
                      {"shape", a.vector ? json{a.cols} : json{a.rows, a.cols}},
                      {"bytes", bytes_of_array(a)},
                      {"attributes", a.attributes},
                      {"slices", stored.slices.size()}});
  }
  return {{"path", checkpoint.path.string()},
          {"step", manifest.step},
          {"run", manifest.run},
          {"version", kFormatVersion},
          {"bytes", totals.file_bytes},
          {"elements", totals.elements},
          {"files", std::move(files)},
          {"arrays", std::move(arrays)},
          {"state", manifest.state}};
}

std::string inspect_text(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  const Totals totals = totals_of(manifest);
  std::string text =
      fmt::format("{}: step {}, run '{}', {} arrays, {} elements, {} bytes in {} files\n",
                  checkpoint.path.string(),
                  manifest.step,
                  manifest.run,
                  manifest.arrays.size(),
                  totals.elements,
                  totals.file_bytes,
                  manifest.files.size());
  for (const FileRecord& f : manifest.files) {
    text += fmt::format(
        "  file   {:<16} {:>14} bytes  xxh3 {}\n", f.name, f.bytes, hash_hex(f.checksum));
  }
  for (const StoredArray& stored : manifest.arrays) {
    const Array& a = stored.array;
    text += fmt::format("  array  {:<56} {} {:>16} {:>14} bytes in {} slices",
                        a.name,
                        name_of(a.type),
                        shape_text(a),
                        bytes_of_array(a),
                        stored.slices.size());
    for (const auto& [key, value] : a.attributes.items()) {
      text += fmt::format("  {}={}", key, value.dump());
    }
    text += "\n";
  }
  return text + "state " + manifest.state.dump(2) + "\n";
}

}  // namespace cambium::checkpoint
