// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_file.hpp"

#include <limits>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/h5.hpp"
#include "checkpoint/hooks.hpp"
#include "checkpoint/output_file.hpp"

namespace cambium::checkpoint {
namespace {

constexpr auto kWrite = h5::Access::write;

void set_fill(const h5::Plist& creation, const h5::Place& place) {
  // As a double for both types: HDF5 converts it.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  h5::checked_status(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &nan),
                     kWrite,
                     place,
                     "cannot set fill value");
}

void write_array(const h5::File& file,
                 const h5::Place& place,
                 const StoredArray& stored,
                 const Manifest& manifest) {
  const Array& array = stored.array;
  const Rectangle whole{{0, array.rows}, {0, array.cols}};
  const h5::Space space = h5::make_space(array, whole);
  h5::create_groups(file, place);
  const h5::Plist creation(
      h5::checked(H5Pcreate(H5P_DATASET_CREATE), kWrite, place, "cannot create properties"));
  h5::checked_status(
      H5Pset_obj_track_times(creation.get(), 0), kWrite, place, "cannot set properties");
  set_fill(creation, place);
  for (const StoredSlice& slice : stored.slices) {
    h5::select(space, array, slice.part, whole);
    const h5::Space source = h5::make_space(array, slice.part);
    h5::checked_status(H5Pset_virtual(creation.get(),
                                      space.get(),
                                      manifest.files[slice.file].name.c_str(),
                                      dataset_name(array.name, slice.part).c_str(),
                                      source.get()),
                       kWrite,
                       place,
                       "cannot map slice");
  }
  H5Sselect_all(space.get());
  h5::Dataset dataset(h5::checked(H5Dcreate2(file.get(),
                                             array.name.c_str(),
                                             h5::file_type(array.type),
                                             space.get(),
                                             H5P_DEFAULT,
                                             creation.get(),
                                             H5P_DEFAULT),
                                  kWrite,
                                  place,
                                  "cannot create"));
  for (const auto& [name, value] : array.attributes.items()) {
    h5::write_attribute(dataset.get(), place, name, value);
  }
  dataset.close(kWrite, place);
}

}  // namespace

FileRecord write_model_file(const std::filesystem::path& folder, const Manifest& manifest) {
  const auto lock = h5::lock_library();
  const std::filesystem::path path = folder / kModelFile;
  pass_hook("model.write.before");
  // Virtual datasets came with 1.10: no older library could read the file whatever its other parts
  // are.
  h5::OutputFile disk(path);
  h5::File file = h5::create_file(path, disk, H5F_LIBVER_V18, H5F_LIBVER_V110);
  h5::write_attribute(file.get(), {path, "/"}, "format", std::string(kFormatName));
  h5::write_attribute(file.get(), {path, "/"}, "version", kFormatVersion);
  h5::write_attribute(file.get(), {path, "/"}, "step", manifest.step);
  for (const StoredArray& stored : manifest.arrays) {
    write_array(file, {path, stored.array.name}, stored, manifest);
  }
  file.close(kWrite, {path, ""});
  disk.check();
  pass_hook("model.write.after");
  FileRecord record = record_of_file(path);
  pass_hook("model.fsync.before");
  disk.sync();
  pass_hook("model.fsync.after");
  return record;
}

}  // namespace cambium::checkpoint
