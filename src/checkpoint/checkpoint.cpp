// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "checkpoint/exchange.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/parse.hpp"
#include "comm/collectively.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string read_manifest(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw Error(
        Code::bad_input,
        fmt::format(
            "{}: no such checkpoint folder{}", path.string(), error ? ": " + error.message() : ""));
  }
  if (!fs::exists(path / kManifestFile, error)) {
    throw Error(Code::bad_input,
                fmt::format("{}: missing; the checkpoint was never completed or lost it",
                            (path / kManifestFile).string()));
  }
  return read_file(path / kManifestFile);
}

void check_files(const Checkpoint& checkpoint) {
  for (const FileRecord& record : checkpoint.manifest.files) {
    const fs::path file = checkpoint.path / record.name;
    std::error_code error;
    const auto bytes = fs::file_size(file, error);
    if (error) {
      throw Error(Code::bad_input,
                  fmt::format("{}: {}; the checkpoint needs it", file.string(), error.message()));
    }
    if (static_cast<std::int64_t>(bytes) != record.bytes) {
      throw Error(Code::bad_input,
                  fmt::format("{}: {} bytes, expected {}; damaged or cut short",
                              file.string(),
                              bytes,
                              record.bytes));
    }
  }
}

void check_step(const Checkpoint& checkpoint) {
  const auto named = step_of_name(fs::absolute(checkpoint.path).lexically_normal().filename());
  if (named && *named != checkpoint.step()) {
    throw Error(Code::bad_input,
                fmt::format("{}: the folder's name says step {}, its manifest step {}",
                            checkpoint.path.string(),
                            *named,
                            checkpoint.step()));
  }
}

std::string checksum_problem(const Checkpoint& checkpoint, const FileRecord& expected) {
  const fs::path file = checkpoint.path / expected.name;
  try {
    const FileRecord found = record_of_file(file);
    if (found.bytes != expected.bytes) {
      return fmt::format("{}: {} bytes, expected {}", file.string(), found.bytes, expected.bytes);
    }
    if (found.checksum != expected.checksum) {
      return fmt::format("{}: checksum {}, expected {}; its content is damaged",
                         file.string(),
                         hash_hex(found.checksum),
                         hash_hex(expected.checksum));
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

Checkpoint checkpoint_from_text(const fs::path& path, const std::string& text) {
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.manifest = manifest_from_text(text, (path / kManifestFile).string());
  for (std::size_t i = 0; i < checkpoint.manifest.arrays.size(); ++i) {
    checkpoint.index.emplace(checkpoint.manifest.arrays[i].array.name, i);
  }
  return checkpoint;
}

std::string read_whole_checkpoint(const fs::path& path) {
  std::string text = read_manifest(path);
  const Checkpoint checkpoint = checkpoint_from_text(path, text);
  check_step(checkpoint);
  check_files(checkpoint);
  return text;
}

const StoredArray* Checkpoint::find(const std::string& name) const {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &manifest.arrays[found->second];
}

const StoredArray& Checkpoint::at(const std::string& name) const {
  const StoredArray* found = find(name);
  if (found == nullptr) {
    throw Error(
        Code::bad_input,
        fmt::format(
            "{}: holds no array '{}' (of {})", path.string(), name, manifest.arrays.size()));
  }
  return *found;
}

FileRecord record_of_file(const fs::path& path) {
  const auto fail = [&](const char* what) {
    const int saved = errno;
    throw Error(Code::storage,
                fmt::format("{}: {}: {}", path.string(), what, std::strerror(saved)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail("cannot open");
  }

  struct stat info {};

  const bool known = ::fstat(fd, &info) == 0;
  const auto bytes = static_cast<std::size_t>(known ? info.st_size : 0);
  // Mapped, not copied: right after a write the pages are in memory.
  void* data = known && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0) : nullptr;
  const int saved = errno;
  ::close(fd);
  errno = saved;
  if (!known || data == MAP_FAILED) {
    fail("cannot map");
  }
#ifdef MADV_POPULATE_READ
  // Reads ahead, and turns a bad disk into an error here instead of a SIGBUS later. Old kernels say
  // EINVAL.
  if (data != nullptr && ::madvise(data, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
    const int reason = errno == EFAULT ? EIO : errno;
    ::munmap(data, bytes);
    errno = reason;
    fail("cannot read");
  }
#endif
  FileRecord record;
  record.name = path.filename().string();
  record.bytes = static_cast<std::int64_t>(bytes);
  record.checksum = hash_bytes(data, bytes);
  if (data != nullptr) {
    ::munmap(data, bytes);
  }
  return record;
}

Checkpoint open_checkpoint(const fs::path& path) {
  return checkpoint_from_text(path, read_whole_checkpoint(path));
}

Checkpoint open_checkpoint(comm::Group& group, const fs::path& path) {
  std::string text;
  comm::collectively(group, "open checkpoint", [&] {
    if (group.rank() == 0) {
      text = read_whole_checkpoint(path);
    }
  });
  broadcast_text(group, text);
  return comm::collectively(
      group, "open checkpoint", [&] { return checkpoint_from_text(path, text); });
}

std::vector<std::string> verify(const Checkpoint& checkpoint) {
  const auto self = comm::make_self_group("verify");
  return verify(*self, checkpoint);
}

std::vector<std::string> verify(comm::Group& group, const Checkpoint& checkpoint) {
  const auto& files = checkpoint.manifest.files;
  std::string problems;
  comm::collectively(group, "verify checkpoint", [&] {
    for (auto i = static_cast<std::size_t>(group.rank()); i < files.size();
         i += static_cast<std::size_t>(group.size())) {
      const std::string problem = checksum_problem(checkpoint, files[i]);
      problems += problem.empty() ? "" : problem + "\n";
    }
  });
  return lines_of(gather_text(group, problems));
}

}  // namespace cambium::checkpoint
