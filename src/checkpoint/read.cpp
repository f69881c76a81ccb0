// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/h5.hpp"
#include "checkpoint/layout.hpp"

namespace cambium::checkpoint {
namespace {

constexpr auto kRead = h5::Access::read;

// The part of one stored slice that one target wants.
struct Piece {
  const Array* array;
  const StoredSlice* stored;
  const Target* target;
  Rectangle part;
};

void check_target(const Checkpoint& checkpoint, const Array& array, const Target& target) {
  const std::string where = fmt::format("{}: array '{}'", checkpoint.path.string(), array.name);
  if (array.type != target.type) {
    throw Error(
        Code::bad_input,
        fmt::format(
            "{}: stored as {}, wanted as {}", where, name_of(array.type), name_of(target.type)));
  }
  const Rectangle& part = target.part;
  const bool inside = part.rows.begin >= 0 && part.rows.end <= array.rows && part.cols.begin >= 0 &&
                      part.cols.end <= array.cols;
  if (!inside) {
    throw Error(Code::bad_input,
                fmt::format("{}: {} is wanted, its shape is {}",
                            where,
                            text_of(part, array.vector),
                            shape_text(array)));
  }
  CAMBIUM_CHECK(
      target.data != nullptr && (part.rows.size() == 1 || target.stride >= part.cols.size()),
      "read_slices: target of '" + target.array + "'");
}

std::vector<Piece> plan_pieces(const Checkpoint& checkpoint, std::span<const Target> targets) {
  std::vector<Piece> pieces;
  for (const Target& target : targets) {
    const StoredArray& stored = checkpoint.at(target.array);
    if (target.part.empty()) {
      continue;
    }
    check_target(checkpoint, stored.array, target);
    for (const StoredSlice& slice : stored.slices) {
      if (const auto part = intersect(slice.part, target.part)) {
        pieces.push_back({&stored.array, &slice, &target, *part});
      }
    }
  }
  // By file, each opened once; within a file in the order asked for.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.stored->file < b.stored->file;
  });
  return pieces;
}

void check_dataset(const h5::Place& place, const h5::Dataset& dataset, const Piece& piece) {
  const Array& array = *piece.array;
  const h5::Type type(h5::checked(H5Dget_type(dataset.get()), kRead, place, "has no type"));
  if (H5Tequal(type.get(), h5::file_type(array.type)) <= 0) {
    throw Error(Code::bad_input,
                fmt::format("{}, dataset '{}': its type is not {}, which the manifest names",
                            place.file.string(),
                            place.object,
                            name_of(array.type)));
  }
  const h5::Space space(h5::checked(H5Dget_space(dataset.get()), kRead, place, "has no shape"));
  const h5::Space expected = h5::make_space(array, piece.stored->part);
  if (H5Sextent_equal(space.get(), expected.get()) <= 0) {
    throw Error(
        Code::bad_input,
        fmt::format("{}, dataset '{}': its shape is not that of the slice which it is named for",
                    place.file.string(),
                    place.object));
  }
}

// Rows of `target.stride` elements, of which the block's columns are selected.
h5::Space memory_space(const Array& array, const Rectangle& block, dim_t stride) {
  if (block.rows.size() == 1 || stride == block.cols.size()) {
    return h5::make_space(array, block);
  }
  const Rectangle rows{block.rows, {block.cols.begin, block.cols.begin + stride}};
  h5::Space space = h5::make_space(array, rows);
  h5::select(space, array, block, rows);
  return space;
}

void read_piece(const std::filesystem::path& path,
                const h5::File& file,
                const Piece& piece,
                std::size_t limit) {
  const Array& array = *piece.array;
  const Target& target = *piece.target;
  const std::size_t width = bytes_of(array.type);
  const h5::Place place{path, dataset_name(array.name, piece.stored->part)};
  const h5::Dataset dataset(h5::checked(
      H5Dopen2(file.get(), place.object.c_str(), H5P_DEFAULT), kRead, place, "cannot open"));
  check_dataset(place, dataset, piece);
  const h5::Space space = h5::make_space(array, piece.stored->part);
  for (const Rectangle& block : split_transfer(piece.part, width, limit)) {
    h5::select(space, array, block, piece.stored->part);
    const h5::Space memory = memory_space(array, block, target.stride);
    const dim_t element = (block.rows.begin - target.part.rows.begin) * target.stride +
                          (block.cols.begin - target.part.cols.begin);
    char* data = static_cast<char*>(target.data) + static_cast<std::size_t>(element) * width;
    const herr_t status = H5Dread(
        dataset.get(), h5::memory_type(array.type), memory.get(), space.get(), H5P_DEFAULT, data);
    const std::string what = fmt::format("cannot read {}", text_of(block, array.vector));
    h5::checked_status(status, kRead, place, what.c_str());
  }
}

}  // namespace

void read_slices(const Checkpoint& checkpoint,
                 std::span<const Target> targets,
                 std::size_t transfer_limit) {
  const std::vector<Piece> pieces = plan_pieces(checkpoint, targets);
  const auto lock = h5::lock_library();
  h5::File file;
  std::filesystem::path path;
  std::size_t opened = checkpoint.manifest.files.size();
  for (const Piece& piece : pieces) {
    if (piece.stored->file != opened) {
      opened = piece.stored->file;
      path = checkpoint.path / checkpoint.manifest.files[opened].name;
      file = h5::open_file(path);
    }
    read_piece(path, file, piece, transfer_limit);
  }
}

Comparison compare(const Checkpoint& a, const Checkpoint& b) {
  return compare(a, b, [](const Checkpoint& checkpoint, std::span<const Target> targets) {
    read_slices(checkpoint, targets);
  });
}

}  // namespace cambium::checkpoint
