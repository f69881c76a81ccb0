// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"

namespace cambium::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLargestHeader = 100'000'000;  // as the format's own readers have it

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(Code::bad_input, file.string() + ": " + what);
}

std::uint64_t bytes_of_type(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> sizes = {{"F64", 8},
                                                             {"F32", 4},
                                                             {"F16", 2},
                                                             {"BF16", 2},
                                                             {"I64", 8},
                                                             {"I32", 4},
                                                             {"I16", 2},
                                                             {"I8", 1},
                                                             {"F8_E4M3", 1},
                                                             {"F8_E5M2", 1},
                                                             {"U8", 1},
                                                             {"BOOL", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

// The number of elements, or -1 where a size is negative or the product does not fit.
dim_t product_of(const std::vector<dim_t>& shape) {
  dim_t n = 1;
  for (const dim_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(n, size, &n)) {
      return -1;
    }
  }
  return n;
}

PublicTensor tensor_of(const std::string& name,
                       const json& entry,
                       const std::filesystem::path& file,
                       std::uint64_t data_begin,
                       std::uint64_t data_bytes) {
  PublicTensor t;
  t.name = name;
  t.file = file;
  t.dtype = entry.at("dtype").get<std::string>();
  t.shape = entry.at("shape").get<std::vector<dim_t>>();
  const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
  if (begin > end || end > data_bytes) {
    refuse(file,
           fmt::format(
               "{}: its data stand at {} to {}, the file has {} bytes of data: it is cut short",
               name,
               begin,
               end,
               data_bytes));
  }
  t.begin = data_begin + begin;
  t.bytes = end - begin;
  const dim_t elements = product_of(t.shape);
  const std::uint64_t size = bytes_of_type(t.dtype);
  if (size == 0) {
    refuse(file, fmt::format("{}: unknown dtype \"{}\"", name, t.dtype));
  }
  // Divided, so that nothing overflows.
  if (elements < 0 || t.bytes % size != 0 ||
      t.bytes / size != static_cast<std::uint64_t>(elements)) {
    refuse(file,
           fmt::format("{}: {} bytes for shape {} of {}", name, t.bytes, t.shape_text(), t.dtype));
  }
  return t;
}

std::vector<PublicTensor> tensors_of_file(const std::filesystem::path& file) {
  std::error_code ec;
  const std::uint64_t size = std::filesystem::file_size(file, ec);
  std::ifstream in(file, std::ios::binary);
  if (ec || !in) {
    refuse(file, "cannot open");
  }
  char length_bytes[8];
  if (!in.read(length_bytes, sizeof length_bytes)) {
    refuse(file, fmt::format("{} bytes, too short for a safetensors file: it is cut short", size));
  }
  const std::string_view start(length_bytes, sizeof length_bytes);
  if (start == "version ") {
    refuse(file, "a Git LFS pointer, expected the file that it stands for; call git lfs pull");
  }
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(length_bytes[i]);
  }
  if (length > kLargestHeader || length > size - 8) {
    refuse(file,
           fmt::format("a header of {} bytes in a file of {}: {}",
                       length,
                       size,
                       start.front() == '<' ? "it is a web page, not a safetensors file"
                                            : "it is cut short, or no safetensors file"));
  }
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) {
    refuse(file, "the header is cut short");
  }
  try {
    std::vector<PublicTensor> out;
    const json header = json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name != "__metadata__") {
        out.push_back(tensor_of(name, entry, file, 8 + length, size - 8 - length));
      }
    }
    return out;
  } catch (const json::exception& e) {
    refuse(file, std::string("the header is not one of a safetensors file: ") + e.what());
  }
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t rest = half & 0x7fffU;
  if (rest >= 0x7c00U) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7f800000U | (rest & 0x3ffU) << 13);
  }
  // An exact multiplication moves the exponent's bias from 15 to 127, for denormals too.
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

template <typename T, typename Convert>
std::vector<float> converted(const std::string& bytes, const Convert& convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(element);
  }
  return values;
}

// {tensor: file} of an index.
std::map<std::string, std::filesystem::path> read_index(const std::filesystem::path& index) {
  try {
    const json list = json::parse(read_file(index));
    std::map<std::string, std::filesystem::path> files;
    for (const auto& [name, file] : list.at("weight_map").items()) {
      const std::filesystem::path path(file.get<std::string>());
      if (path.has_parent_path() || path.empty()) {
        refuse(index, fmt::format("{}: \"{}\" is no file of the folder", name, path.string()));
      }
      files[name] = path;
    }
    return files;
  } catch (const json::exception& e) {
    refuse(index, e.what());
  }
}

// All that are missing, at once.
void expect_files(const std::set<std::filesystem::path>& files,
                  const std::filesystem::path& where) {
  std::string missing;
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) {
      missing += (missing.empty() ? "" : ", ") + file.filename().string();
    }
  }
  if (!missing.empty()) {
    refuse(where, "not there: " + missing);
  }
}

}  // namespace

dim_t PublicTensor::elements() const {
  return product_of(shape);
}

std::string PublicTensor::shape_text() const {
  return fmt::format("({})", fmt::join(shape, ", "));
}

PublicFolder list_tensors(const std::filesystem::path& folder) {
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const bool has_index = std::filesystem::exists(index);
  const std::map<std::string, std::filesystem::path> listed =
      has_index ? read_index(index) : std::map<std::string, std::filesystem::path>();
  std::set<std::filesystem::path> files;
  for (const auto& [name, file] : listed) {
    files.insert(folder / file);
  }
  if (!has_index) {
    files.insert(folder / "model.safetensors");
  }
  expect_files(files, has_index ? index : folder);
  PublicFolder all;
  for (const std::filesystem::path& file : files) {
    const std::vector<PublicTensor> more = tensors_of_file(file);
    all.tensors.insert(all.tensors.end(), more.begin(), more.end());
  }
  std::sort(all.tensors.begin(),
            all.tensors.end(),
            [](const PublicTensor& a, const PublicTensor& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < all.tensors.size(); ++i) {
    const PublicTensor& before = all.tensors[i - 1];
    if (all.tensors[i].name == before.name) {
      refuse(all.tensors[i].file,
             fmt::format("{} stands in {} too", before.name, before.file.string()));
    }
  }
  for (const auto& [name, file] : listed) {
    const auto found = std::lower_bound(
        all.tensors.begin(), all.tensors.end(), name, [](const PublicTensor& t, const auto& n) {
          return t.name < n;
        });
    if (found == all.tensors.end() || found->name != name || found->file != folder / file) {
      refuse(index, fmt::format("{} is not in {}, where the index has it", name, file.string()));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors" && files.count(entry.path()) == 0) {
      all.notices.push_back(entry.path().string() + ": not taken: the index does not name it");
    }
  }
  std::sort(all.notices.begin(), all.notices.end());
  return all;
}

std::vector<float> read_tensor(const PublicTensor& tensor) {
  std::string bytes(tensor.bytes, '\0');
  std::ifstream in(tensor.file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(tensor.begin));
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    throw Error(Code::storage,
                fmt::format("{}: cannot read {} bytes of {}: {}",
                            tensor.file.string(),
                            tensor.bytes,
                            tensor.name,
                            std::strerror(errno)));
  }
  if (tensor.dtype == "F32") {
    return converted<float>(bytes, [](float x) { return x; });
  }
  if (tensor.dtype == "BF16") {
    return converted<std::uint16_t>(bytes, [](std::uint16_t x) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
    });
  }
  if (tensor.dtype == "F16") {
    return converted<std::uint16_t>(bytes, half_to_float);
  }
  refuse(tensor.file,
         fmt::format("{}: dtype {}, expected F32, F16 or BF16", tensor.name, tensor.dtype));
}

void write_tensors(const std::filesystem::path& path,
                   const std::vector<NewTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  json header = {{"__metadata__", metadata}};
  std::uint64_t offset = 0;
  for (const NewTensor& t : tensors) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(product_of(t.shape)) * sizeof(float);
    header[t.name] = {
        {"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data are aligned
  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream out(partial, std::ios::binary | std::ios::trunc);
  for (std::uint64_t length = text.size(), i = 0; i < 8; ++i) {
    out.put(static_cast<char>(length >> (8 * i) & 0xffU));
  }
  out << text;
  for (const NewTensor& t : tensors) {
    const std::vector<float> values = t.values();
    CAMBIUM_CHECK(static_cast<dim_t>(values.size()) == product_of(t.shape), t.name);
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  out.close();
  std::error_code ec;
  if (out) {
    std::filesystem::rename(partial, path, ec);
  }
  if (!out || ec) {
    const std::string why = ec ? ec.message() : std::strerror(errno);
    std::filesystem::remove(partial, ec);
    throw Error(Code::storage, path.string() + ": cannot write: " + why);
  }
  sync_folder(path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path());
}

}  // namespace cambium::checkpoint
