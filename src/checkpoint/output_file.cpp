// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>
#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

#include "base/error.hpp"

namespace cambium::checkpoint::h5 {
namespace {

// What HDF5 keeps per open file. `base` comes first: the library sees only it.
struct Driver {
  H5FD_t base;
  OutputFile* output;
  haddr_t end_of_allocation;
  haddr_t end_of_file;
};

struct AccessInfo {
  OutputFile* output;
};

Driver* self(H5FD_t* file) {
  return reinterpret_cast<Driver*>(file);
}

const Driver* self(const H5FD_t* file) {
  return reinterpret_cast<const Driver*>(file);
}

// On HDF5's error stack as its own drivers write it; h5::fail() finds errno there.
herr_t report(const char* call, haddr_t offset, std::size_t bytes) {
  H5Epush2(H5E_DEFAULT,
           __FILE__,
           call,
           __LINE__,
           H5E_ERR_CLS,
           H5E_VFL,
           H5E_WRITEERROR,
           "%s of %llu bytes at %llu: errno = %d",
           call,
           static_cast<unsigned long long>(bytes),
           static_cast<unsigned long long>(offset),
           errno);
  return -1;
}

H5FD_t* open_driver(const char*, unsigned, hid_t access, haddr_t) {
  const auto* info = static_cast<const AccessInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) {
    return nullptr;
  }
  auto driver = std::make_unique<Driver>();
  driver->output = info->output;
  return &driver.release()->base;  // HDF5 owns it until close_driver
}

herr_t close_driver(H5FD_t* file) {
  delete self(file);
  return 0;
}

herr_t query_features(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_end_of_allocation(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->end_of_allocation;
}

herr_t set_end_of_allocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file)->end_of_allocation = address;
  return 0;
}

haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return self(file)->end_of_file;
}

herr_t read_driver(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t bytes, void* data) {
  return self(file)->output->read(at, bytes, data) == 0 ? 0 : report("read", at, bytes);
}

herr_t write_driver(
    H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t bytes, const void* data) {
  Driver* driver = self(file);
  if (driver->output->write(at, bytes, data) != 0) {
    return report("write", at, bytes);
  }
  driver->end_of_file = std::max<haddr_t>(driver->end_of_file, at + bytes);
  return 0;
}

herr_t truncate_driver(H5FD_t* file, hid_t, hbool_t) {
  Driver* driver = self(file);
  if (driver->end_of_file != driver->end_of_allocation) {
    if (driver->output->truncate(driver->end_of_allocation) != 0) {
      return report("truncate", driver->end_of_allocation, 0);
    }
    driver->end_of_file = driver->end_of_allocation;
  }
  return 0;
}

// Registered once; the caller holds lock_library().
hid_t driver_id() {
  static const H5FD_class_t driver_class = [] {
    H5FD_class_t c{};
#if H5_VERSION_GE(1, 13, 2)
    c.version = H5FD_CLASS_VERSION;
    c.value = static_cast<H5FD_class_value_t>(600);  // of the range for drivers under test
#endif
    c.name = "cambium output file";
    c.maxaddr = (haddr_t{1} << 63) - 1;
    c.fc_degree = H5F_CLOSE_WEAK;
    c.fapl_size = sizeof(AccessInfo);
    c.open = open_driver;
    c.close = close_driver;
    c.query = query_features;
    c.get_eoa = get_end_of_allocation;
    c.set_eoa = set_end_of_allocation;
    c.get_eof = get_end_of_file;
    c.read = read_driver;
    c.write = write_driver;
    c.truncate = truncate_driver;
    const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(map), std::end(map), std::begin(c.fl_map));
    return c;
  }();
  static const hid_t id = H5FDregister(&driver_class);
  return id;
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    fail("cannot create", errno);
  }
}

OutputFile::~OutputFile() {
  ::close(fd_);
}

void OutputFile::attach(hid_t access) const {
  const AccessInfo info{const_cast<OutputFile*>(this)};
  if (driver_id() < 0 || H5Pset_driver(access, driver_id(), &info) < 0) {
    throw Error(Code::bug, "checkpoint: HDF5 refuses the file driver");
  }
}

void OutputFile::start_writing() const {
#ifdef SYNC_FILE_RANGE_WRITE
  // Advice only: an error comes back from fsync.
  ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
}

void OutputFile::sync() const {
  if (::fsync(fd_) != 0) {
    fail("cannot fsync", errno);
  }
}

void OutputFile::check() const {
  if (error_ != 0) {
    fail("cannot write", error_);
  }
}

int OutputFile::write(std::uint64_t offset, std::size_t bytes, const void* data) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0 && error_ == 0) {
    const ssize_t n = ::pwrite(fd_, from, bytes, static_cast<off_t>(offset));
    if (n <= 0) {
      if (n < 0 && errno == EINTR) {
        continue;
      }
      errno = n == 0 ? EIO : errno;  // a regular file always takes something or says why not
      return remember_failure();
    }
    from += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

int OutputFile::read(std::uint64_t offset, std::size_t bytes, void* data) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return -1;
    }
    if (n == 0) {  // behind the end: allocated, not written
      std::memset(to, 0, bytes);
      return 0;
    }
    to += n;
    offset += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

int OutputFile::truncate(std::uint64_t bytes) {
  if (error_ == 0 && ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    return remember_failure();
  }
  return 0;
}

int OutputFile::remember_failure() {
  error_ = errno;
  return -1;
}

void OutputFile::fail(const char* what, int error) const {
  throw Error(Code::storage, fmt::format("{}: {}: {}", path_.string(), what, std::strerror(error)));
}

}  // namespace cambium::checkpoint::h5
