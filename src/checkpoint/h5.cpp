// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/h5.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace cambium::checkpoint::h5 {
namespace {

using nlohmann::json;

void prepare_library() {
  // Checkpoints are published by rename and never written in place, so locks protect nothing, and
  // some file systems have none. Read once by the library, when it starts.
  ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  // Files are closed by their owners. After a full disk the library's own clean-up at exit would
  // try again, and crash.
  H5dont_atexit();
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

// The innermost entry names the cause ("… errno = 28, error message = 'No space left on device'
// …").
herr_t keep_innermost(unsigned n, const H5E_error2_t* entry, void* out) {
  if (n == 0 && entry->desc != nullptr) {
    *static_cast<std::string*>(out) = entry->desc;
  }
  return 0;
}

int errno_in(const std::string& reason) {
  const std::string key = "errno = ";
  const std::size_t at = reason.find(key);
  return at == std::string::npos ? 0 : std::atoi(reason.c_str() + at + key.size());
}

std::string hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free space, or lower checkpoint.keep_last";
    case EAGAIN:
      return "; locked by another process: see HDF5_USE_FILE_LOCKING";
    default:
      return "";
  }
}

std::vector<hsize_t> axes_of(const Array& array, dim_t rows, dim_t cols) {
  if (array.vector) {
    return {static_cast<hsize_t>(cols)};
  }
  return {static_cast<hsize_t>(rows), static_cast<hsize_t>(cols)};
}

}  // namespace

std::unique_lock<std::mutex> lock_library() {
  static std::mutex mutex;
  static std::once_flag prepared;
  std::unique_lock lock(mutex);
  std::call_once(prepared, prepare_library);
  // The switch belongs to a thread where the library is built thread-safe, so every thread sets it.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return lock;
}

void fail(Access access, const Place& place, const std::string& what) {
  std::string reason = "HDF5 gave no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  const int error = errno_in(reason);
  if (error != 0) {
    reason = std::strerror(error);
  }
  const bool disk = access == Access::write || error == EIO || error == ESTALE;
  const std::string object =
      place.object.empty() ? "" : fmt::format(", dataset '{}'", place.object);
  throw Error(
      disk ? Code::storage : Code::bad_input,
      fmt::format("{}{}: {}: {}{}", place.file.string(), object, what, reason, hint_for(error)));
}

hid_t file_type(ElementType type) {
  return type == ElementType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
}

hid_t memory_type(ElementType type) {
  return type == ElementType::f64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
}

Space make_space(const Array& array, const Rectangle& part) {
  const auto axes = axes_of(array, part.rows.size(), part.cols.size());
  return Space(checked(H5Screate_simple(static_cast<int>(axes.size()), axes.data(), nullptr),
                       Access::write,
                       {"memory", array.name},
                       "cannot create dataspace"));
}

void select(const Space& space,
            const Array& array,
            const Rectangle& part,
            const Rectangle& origin) {
  const auto start =
      axes_of(array, part.rows.begin - origin.rows.begin, part.cols.begin - origin.cols.begin);
  const auto count = axes_of(array, part.rows.size(), part.cols.size());
  checked_status(H5Sselect_hyperslab(
                     space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                 Access::write,
                 {"memory", array.name},
                 "cannot select");
}

File create_file(const std::filesystem::path& path,
                 const OutputFile& output,
                 H5F_libver_t low,
                 H5F_libver_t high) {
  const Place place{path, ""};
  const Plist access(
      checked(H5Pcreate(H5P_FILE_ACCESS), Access::write, place, "cannot create properties"));
  const Plist creation(
      checked(H5Pcreate(H5P_FILE_CREATE), Access::write, place, "cannot create properties"));
  const bool set = H5Pset_libver_bounds(access.get(), low, high) >= 0 &&
                   H5Pset_alignment(access.get(), 1 << 20, 4096) >= 0 &&
                   H5Pset_obj_track_times(creation.get(), 0) >= 0;
  checked_status(set ? 0 : -1, Access::write, place, "cannot set properties");
  output.attach(access.get());
  return File(checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
                      Access::write,
                      place,
                      "cannot create"));
}

void create_groups(const File& file, const Place& place) {
  const Plist creation(
      checked(H5Pcreate(H5P_GROUP_CREATE), Access::write, place, "cannot create properties"));
  checked_status(
      H5Pset_obj_track_times(creation.get(), 0), Access::write, place, "cannot set properties");
  for (std::size_t end = place.object.find('/', 1); end != std::string::npos;
       end = place.object.find('/', end + 1)) {
    const std::string name = place.object.substr(0, end);
    if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) {
      continue;
    }
    const Group group(
        checked(H5Gcreate2(file.get(), name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                Access::write,
                place,
                "cannot create group"));
  }
}

File open_file(const std::filesystem::path& path) {
  const Place place{path, ""};
  const Plist access(
      checked(H5Pcreate(H5P_FILE_ACCESS), Access::read, place, "cannot create properties"));
  checked_status(H5Pset_fapl_sec2(access.get()), Access::read, place, "cannot set driver");
  return File(checked(
      H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), Access::read, place, "cannot open"));
}

namespace {

void write_scalar(hid_t object,
                  const Place& place,
                  const std::string& name,
                  hid_t stored,
                  hid_t given,
                  const void* value) {
  const std::string what = "cannot write attribute " + name;
  const Space scalar(checked(H5Screate(H5S_SCALAR), Access::write, place, what.c_str()));
  Attribute attribute(
      checked(H5Acreate2(object, name.c_str(), stored, scalar.get(), H5P_DEFAULT, H5P_DEFAULT),
              Access::write,
              place,
              what.c_str()));
  checked_status(H5Awrite(attribute.get(), given, value), Access::write, place, what.c_str());
  attribute.close(Access::write, place);
}

}  // namespace

void write_attribute(hid_t object, const Place& place, const std::string& name, const json& value) {
  if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    write_scalar(object, place, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &number);
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    write_scalar(object, place, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &number);
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    const Type type(checked(H5Tcopy(H5T_C_S1), Access::write, place, "cannot copy type"));
    checked_status(H5Tset_size(type.get(), text.size() + 1), Access::write, place, "text size");
    checked_status(H5Tset_cset(type.get(), H5T_CSET_UTF8), Access::write, place, "text encoding");
    write_scalar(object, place, name, type.get(), type.get(), text.c_str());
  } else {
    throw Error(Code::bug,
                fmt::format("{}: attribute {} of '{}' is {}, expected an integer, float or text",
                            place.file.string(),
                            name,
                            place.object,
                            value.type_name()));
  }
}

}  // namespace cambium::checkpoint::h5
