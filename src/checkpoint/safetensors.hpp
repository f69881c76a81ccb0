// checkpoint/safetensors.hpp — the public tensor files of Hugging Face: `model.safetensors`, or the
// shards that `model.safetensors.index.json` names. Format: u64 little-endian header length; JSON
// header {name: {dtype, shape, data_offsets}, "__metadata__": {…}}; the data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::checkpoint {

struct PublicTensor {
  std::string name;
  std::string dtype;  // F32, F16 or BF16 can be read; others are only listed
  std::vector<dim_t> shape;
  std::filesystem::path file;
  std::uint64_t begin = 0;  // byte in the file
  std::uint64_t bytes = 0;

  [[nodiscard]] dim_t elements() const;
  // "(64, 192)".
  [[nodiscard]] std::string shape_text() const;
};

struct PublicFolder {
  std::vector<PublicTensor> tensors;  // by name ascending
  std::vector<std::string> notices;   // files that lie there and belong to nothing
};

// Every tensor of model.safetensors, or of the shards that the index names; nothing is read but
// headers. Throws Error(bad_input) naming file and tensor, with a hint: no safetensors file (a Git
// LFS pointer, a web page), one that is cut short, a header that is no JSON, offsets outside the
// file, a size that is not the shape's, an unknown dtype, a name that stands twice, a shard or a
// listed tensor that is missing.
[[nodiscard]] PublicFolder list_tensors(const std::filesystem::path& folder);

// The elements, row-major, widened to fp32, which keeps every bit. Throws Error(bad_input) for
// another dtype, Error(storage) when the disk fails.
[[nodiscard]] std::vector<float> read_tensor(const PublicTensor& tensor);

// A tensor to write, and its elements, asked for when their turn comes.
struct NewTensor {
  std::string name;
  std::vector<dim_t> shape;
  std::function<std::vector<float>()> values;
};

// One F32 file with `metadata` in its header, written beside `path` and renamed: whole or absent.
// Throws Error(storage).
void write_tensors(const std::filesystem::path& path,
                   const std::vector<NewTensor>& tensors,
                   const std::map<std::string, std::string>& metadata);

}  // namespace cambium::checkpoint
