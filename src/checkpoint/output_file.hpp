// checkpoint/output_file.hpp — a file that HDF5 writes and we keep hold of: its errors, its sync,
// its end (internal).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <hdf5.h>

namespace cambium::checkpoint::h5 {

// HDF5's own sec2 driver cannot be used for writing: after a failed write (full disk) the library
// cannot close the file, keeps a dangling identifier, and crashes in MPI_Finalize or at exit (h5py
// #914 and #1120; HDF5 1.10.8, seen in tests). This driver makes the same POSIX calls; the first
// failure is reported with errno, and from then on writes are dropped, so that closing always
// works. The file is then to be removed.
class OutputFile {
 public:
  // Creates PATH, which must not exist. Throws Error(storage).
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Makes files opened with this access list go through this object, which must outlive them.
  void attach(hid_t access) const;

  // Hands dirty pages to the disk without waiting.
  void start_writing() const;
  // fsync. Throws Error(storage).
  void sync() const;
  // Throws Error(storage) when any write failed, also one whose failure the library kept to itself.
  void check() const;

  // What the driver calls. -1 with errno set, once; later calls succeed and do nothing.
  int write(std::uint64_t offset, std::size_t bytes, const void* data);
  int read(std::uint64_t offset, std::size_t bytes, void* data) const;
  int truncate(std::uint64_t bytes);

 private:
  int remember_failure();
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_;
  int fd_ = -1;
  int error_ = 0;  // errno of the first failure
};

}  // namespace cambium::checkpoint::h5
