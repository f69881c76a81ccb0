// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"

namespace cambium {
namespace {

[[noreturn]] void fail(Code code, const std::filesystem::path& path, const char* what) {
  const int saved = errno;
  throw Error(code, path.string() + ": " + what + ": " + std::strerror(saved));
}

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      ::close(fd);
      fail(Code::storage, path, "cannot write");
    }
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

void sync_and_close(int fd, const std::filesystem::path& path) {
  if (::fsync(fd) != 0) {
    ::close(fd);
    fail(Code::storage, path, "cannot fsync");
  }
  if (::close(fd) != 0) {
    fail(Code::storage, path, "cannot close");
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail(Code::bad_input, path, "cannot open");
  }
  std::string content;

  struct stat info {};

  if (::fstat(fd, &info) == 0 && info.st_size > 0) {
    content.reserve(static_cast<std::size_t>(info.st_size));
  }
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n == 0) {
      break;
    }
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      ::close(fd);
      fail(Code::bad_input, path, "cannot read");
    }
    content.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return content;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    fail(Code::storage, temporary, "cannot create");
  }
  write_all(fd, content, temporary);
  sync_and_close(fd, temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    fail(Code::storage, path, "cannot rename into place");
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

void append_line(const std::filesystem::path& path, std::string_view line, Durable durable) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    fail(Code::storage, path, "cannot open for appending");
  }
  std::string text(line);
  text += '\n';
  write_all(fd, text, path);
  if (durable == Durable::yes) {
    sync_and_close(fd, path);
  } else {
    ::close(fd);
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    fail(Code::storage, folder, "cannot open folder");
  }
  sync_and_close(fd, folder);
}

}  // namespace cambium
