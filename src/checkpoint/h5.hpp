// checkpoint/h5.hpp — HDF5 handles that close themselves, and its error stack folded into one line
// (internal). Only files of the target checkpoint_hdf5 include it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <hdf5.h>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/array.hpp"
#include "checkpoint/output_file.hpp"

namespace cambium::checkpoint::h5 {

// HDF5 is not thread-safe: every use of it in this process holds this lock. The first call prepares
// the library: file locking off unless the user's environment says otherwise, no error printing, no
// clean-up at exit.
[[nodiscard]] std::unique_lock<std::mutex> lock_library();

// Where a call failed: "FILE" or "FILE, dataset '/a/r0_4_c0_2'".
struct Place {
  std::filesystem::path file;
  std::string object;
};

// Throws Error with place, `what` and HDF5's innermost reason. Call it right after the failed call:
// the next one clears the reason. Writing always fails with Code::storage; reading with bad_input
// unless the disk gave an I/O error.
enum class Access { read, write };
[[noreturn]] void fail(Access access, const Place& place, const std::string& what);

inline hid_t checked(hid_t id, Access access, const Place& place, const char* what) {
  if (id < 0) {
    fail(access, place, what);
  }
  return id;
}

inline void checked_status(herr_t status, Access access, const Place& place, const char* what) {
  if (status < 0) {
    fail(access, place, what);
  }
}

// Owns one identifier. Move-only. The destructor closes quietly: where closing can lose data, call
// close().
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;

  explicit Handle(hid_t id) : id_(id) {}

  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      close_quietly();
      id_ = std::exchange(other.id_, -1);
    }
    return *this;
  }

  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  ~Handle() {
    close_quietly();
  }

  [[nodiscard]] hid_t get() const {
    return id_;
  }

  void close(Access access, const Place& place) {
    if (Close(std::exchange(id_, -1)) < 0) {
      fail(access, place, "cannot close");
    }
  }

  void close_quietly() noexcept {
    if (id_ >= 0) {
      Close(std::exchange(id_, -1));
    }
  }

 private:
  hid_t id_ = -1;
};

using File = Handle<H5Fclose>;
using Dataset = Handle<H5Dclose>;
using Group = Handle<H5Gclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Attribute = Handle<H5Aclose>;
using Plist = Handle<H5Pclose>;

// IEEE little-endian in files, native in memory: the same bytes on every machine that this program
// runs on.
[[nodiscard]] hid_t file_type(ElementType type);
[[nodiscard]] hid_t memory_type(ElementType type);

// Shape of the array in files: (cols) for a vector, else (rows, cols).
[[nodiscard]] Space make_space(const Array& array, const Rectangle& part);
// Selects `part` of a dataset of the whole array, or of the rectangle that starts at `origin`.
void select(const Space& space, const Array& array, const Rectangle& part, const Rectangle& origin);

// Creates the HDF5 structure in `output`, which is the new file PATH. No time stamps, so equal
// content gives equal bytes; large datasets start on pages.
[[nodiscard]] File create_file(const std::filesystem::path& path,
                               const OutputFile& output,
                               H5F_libver_t low,
                               H5F_libver_t high);
// Read-only, sec2 driver.
// The groups on the way to place.object that are not there yet. HDF5 would make them itself, but
// with time stamps: equal numbers would not give equal bytes.
void create_groups(const File& file, const Place& place);

[[nodiscard]] File open_file(const std::filesystem::path& path);

void write_attribute(hid_t object,
                     const Place& place,
                     const std::string& name,
                     const nlohmann::json& value);

}  // namespace cambium::checkpoint::h5
