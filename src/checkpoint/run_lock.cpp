// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_lock.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "base/error.hpp"

namespace cambium::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Owner {
  std::string host;
  std::int64_t pid = 0;
  std::string job;
};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

[[noreturn]] void fail(const fs::path& path, const char* what) {
  const int saved = errno;
  throw Error(Code::storage, fmt::format("{}: {}: {}", path.string(), what, std::strerror(saved)));
}

std::string text_of(const Owner& owner) {
  return fmt::format(
      "host {}, pid {}, job {}", owner.host, owner.pid, owner.job.empty() ? "none" : owner.job);
}

// Empty host when nothing readable stands there: its owner died before it wrote, or has not written
// yet.
Owner read_owner(int fd) {
  std::array<char, 4096> buffer{};
  const ssize_t bytes = ::pread(fd, buffer.data(), buffer.size(), 0);
  const json j =
      json::parse(buffer.data(), buffer.data() + std::max<ssize_t>(0, bytes), nullptr, false);
  Owner owner;
  if (j.is_object()) {
    owner.host = j.value("host", "");
    owner.pid = j.value("pid", std::int64_t{0});
    owner.job = j.value("job", "");
  }
  return owner;
}

void write_owner(int fd, const Owner& owner, const fs::path& path) {
  const std::string text =
      json{{"host", owner.host}, {"pid", owner.pid}, {"job", owner.job}}.dump() + "\n";
  const bool written =
      ::ftruncate(fd, 0) == 0 &&
      ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ::fsync(fd) == 0;
  if (!written) {
    fail(path, "cannot write");
  }
}

[[noreturn]] void refuse(const fs::path& path, const Owner& owner, const char* hint) {
  const std::string who =
      owner.host.empty() ? "a process that has not named itself yet" : text_of(owner);
  throw Error(
      Code::usage,
      fmt::format("{}: another job owns this run directory: {}; {}", path.string(), who, hint));
}

bool is_alive(const Owner& owner) {
  return owner.host != host_name() || ::kill(static_cast<pid_t>(owner.pid), 0) == 0 ||
         errno == EPERM;
}

// The name may have been removed by the last owner between our open and our lock.
bool is_still_at(int fd, const fs::path& path) {
  struct stat of_fd {};

  struct stat of_path {};

  return ::fstat(fd, &of_fd) == 0 && ::stat(path.c_str(), &of_path) == 0 &&
         of_fd.st_ino == of_path.st_ino && of_fd.st_dev == of_path.st_dev;
}

bool has_no_flock(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

RunLock::RunLock(const fs::path& run_directory, const std::string& job)
    : path_(run_directory / "lock") {
  std::error_code error;
  fs::create_directories(run_directory, error);
  if (error) {
    throw Error(
        Code::storage,
        fmt::format("{}: cannot create folder: {}", run_directory.string(), error.message()));
  }
  const Owner self{host_name(), ::getpid(), job};
  for (;;) {
    const int created = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    fd_ = created >= 0 ? created : ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) {
      if (errno == ENOENT) {
        continue;  // released between the two calls
      }
      fail(path_, "cannot open");
    }
    try {
      if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
        const int reason = errno;
        const Owner owner = read_owner(fd_);
        if (reason == EWOULDBLOCK) {
          refuse(path_, owner, "wait for it or stop it");
        }
        if (!has_no_flock(reason)) {
          errno = reason;
          fail(path_, "cannot lock");
        }
        if (created < 0 && is_alive(owner)) {
          refuse(path_, owner, "if it is gone, delete this file");
        }
      }
      if (is_still_at(fd_, path_)) {
        const Owner before = read_owner(fd_);
        stale_owner_ = before.host.empty() ? "" : text_of(before);
        write_owner(fd_, self, path_);
        return;
      }
    } catch (...) {
      ::close(fd_);
      throw;
    }
    ::close(fd_);
  }
}

RunLock::~RunLock() {
  // The name goes while the lock is held: who opened the old file sees that it is gone and tries
  // again.
  if (is_still_at(fd_, path_)) {
    ::unlink(path_.c_str());
  }
  ::close(fd_);
}

}  // namespace cambium::checkpoint
