// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shard_file.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/h5.hpp"
#include "checkpoint/hooks.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/output_file.hpp"

namespace cambium::checkpoint {
namespace {

constexpr auto kWrite = h5::Access::write;
constexpr std::size_t kPackBytes = std::size_t{4} << 20;
// Handed to the disk while the next ones are written, so that fsync finds little left to do.
constexpr std::size_t kFlushBytes = std::size_t{64} << 20;

class ShardWriter {
 public:
  ShardWriter(const std::filesystem::path& path, std::size_t limit)
      : path_(path),
        limit_(limit),
        disk_(path),
        file_(h5::create_file(path, disk_, H5F_LIBVER_V18, H5F_LIBVER_V18)) {}

  void write_head(dim_t step) {
    h5::write_attribute(file_.get(), {path_, "/"}, "format", std::string(kFormatName) + " shard");
    h5::write_attribute(file_.get(), {path_, "/"}, "version", kFormatVersion);
    h5::write_attribute(file_.get(), {path_, "/"}, "step", step);
  }

  void write_slice(const Placed& slice) {
    const Array& array = *slice.array;
    const Source& source = *slice.source;
    const h5::Place place{path_, dataset_name(array.name, source.part)};
    const h5::Space space = h5::make_space(array, source.part);
    h5::Dataset dataset = create_dataset(place, array.type, space);
    const bool adjacent = source.part.rows.size() == 1 || source.stride == source.part.cols.size();
    const std::size_t limit = adjacent ? limit_ : std::min(limit_, kPackBytes);
    for (const Rectangle& block : split_transfer(source.part, bytes_of(array.type), limit)) {
      pass_hook("shard.write.before");
      write_block(place, dataset, space, array, source, block);
      pass_hook("shard.write.after");
    }
    dataset.close(kWrite, place);
  }

  void close() {
    pass_hook("shard.close.before");
    file_.close(kWrite, {path_, ""});
    disk_.check();
    disk_.start_writing();
    pass_hook("shard.close.after");
  }

  void sync() const {
    pass_hook("shard.fsync.before");
    disk_.sync();
    pass_hook("shard.fsync.after");
  }

 private:
  h5::Dataset create_dataset(const h5::Place& place, ElementType type, const h5::Space& space) {
    h5::create_groups(file_, place);
    const h5::Plist creation(
        h5::checked(H5Pcreate(H5P_DATASET_CREATE), kWrite, place, "cannot create properties"));
    const bool set = H5Pset_layout(creation.get(), H5D_CONTIGUOUS) >= 0 &&
                     H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER) >= 0 &&
                     H5Pset_obj_track_times(creation.get(), 0) >= 0;
    h5::checked_status(set ? 0 : -1, kWrite, place, "cannot set properties");
    return h5::Dataset(h5::checked(H5Dcreate2(file_.get(),
                                              place.object.c_str(),
                                              h5::file_type(type),
                                              space.get(),
                                              H5P_DEFAULT,
                                              creation.get(),
                                              H5P_DEFAULT),
                                   kWrite,
                                   place,
                                   "cannot create"));
  }

  void write_block(const h5::Place& place,
                   const h5::Dataset& dataset,
                   const h5::Space& space,
                   const Array& array,
                   const Source& source,
                   const Rectangle& block) {
    h5::select(space, array, block, source.part);
    const h5::Space memory = h5::make_space(array, block);
    const void* data = block_data(source, block);
    const herr_t status = H5Dwrite(
        dataset.get(), h5::memory_type(array.type), memory.get(), space.get(), H5P_DEFAULT, data);
    const std::string what = fmt::format("cannot write {}", text_of(block, array.vector));
    h5::checked_status(status, kWrite, place, what.c_str());
    unflushed_ += static_cast<std::size_t>(block.elements()) * bytes_of(array.type);
    if (unflushed_ >= kFlushBytes) {
      disk_.start_writing();
      unflushed_ = 0;
    }
  }

  // The block's elements, adjacent: in the slice itself, or packed.
  const void* block_data(const Source& source, const Rectangle& block) {
    const std::size_t width = bytes_of(source.type);
    const auto at = [&](dim_t row) {
      const dim_t element = (row - source.part.rows.begin) * source.stride +
                            (block.cols.begin - source.part.cols.begin);
      return static_cast<const char*>(source.data) + static_cast<std::size_t>(element) * width;
    };
    if (block.rows.size() == 1 || source.stride == block.cols.size()) {
      return at(block.rows.begin);
    }
    const std::size_t row_bytes = static_cast<std::size_t>(block.cols.size()) * width;
    packed_.resize(row_bytes * static_cast<std::size_t>(block.rows.size()));
    char* to = packed_.data();
    for (dim_t row = block.rows.begin; row < block.rows.end; ++row) {
      std::memcpy(to, at(row), row_bytes);
      to += row_bytes;
    }
    return packed_.data();
  }

  const std::filesystem::path& path_;
  std::size_t limit_;
  h5::OutputFile disk_;
  h5::File file_;
  std::vector<char> packed_;
  std::size_t unflushed_ = 0;
};

}  // namespace

FileRecord write_shard(const std::filesystem::path& file,
                       dim_t step,
                       std::span<const Placed> slices,
                       std::size_t transfer_limit) {
  const auto lock = h5::lock_library();
  pass_hook("shard.create.before");
  ShardWriter writer(file, transfer_limit);
  pass_hook("shard.create.after");
  writer.write_head(step);
  for (const Placed& slice : slices) {
    writer.write_slice(slice);
  }
  writer.close();
  // While the disk works, over pages that are still in memory.
  FileRecord record = record_of_file(file);
  writer.sync();
  return record;
}

}  // namespace cambium::checkpoint
