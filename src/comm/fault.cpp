// SPDX-License-Identifier: Apache-2.0
#include "comm/fault.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

namespace cambium::comm {
namespace {

constexpr std::chrono::seconds kLoserWaits{10};

void write_whole(int fd, const std::string& text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return;  // the process is ending; there is nobody left to tell
    }
  }
}

std::string as_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    line += c == '\n' || c == '\r' ? ' ' : c;
  }
  return line + '\n';
}

}  // namespace

Claim claim_fault(const std::filesystem::path& attempt_folder, const std::string& text) noexcept {
  const std::string line = as_one_line(text);
  if (!attempt_folder.empty()) {
    const std::filesystem::path path = attempt_folder / "FAULT";
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) {
      write_whole(fd, line);
      ::fsync(fd);
      ::close(fd);
    } else if (errno == EEXIST) {
      return Claim::lost;
    }
  }
  write_whole(STDERR_FILENO, line);  // one write: lines of two processes never mix
  return Claim::won;
}

void wait_for_the_end(int exit_code) noexcept {
  std::this_thread::sleep_for(kLoserWaits);
  ::_exit(exit_code);
}

}  // namespace cambium::comm
