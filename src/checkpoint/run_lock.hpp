// checkpoint/run_lock.hpp — one job at a time in a run directory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace cambium::checkpoint {

// Holds RUN/lock for its life: a flock, which the kernel drops when the process is gone however it
// died, on a file that names the owner. Where the file system has no flock the file's existence
// (O_EXCL) is the lock, and an owner of this host whose process is gone counts as stale. Throws
// Error(usage) naming the owner's host, pid and job id when another process holds it;
// Error(storage) with errno's text. One per run, taken by rank 0 (inside comm::collectively).
class RunLock {
 public:
  // `job` is the scheduler's job id, or empty.
  RunLock(const std::filesystem::path& run_directory, const std::string& job);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // "host n1, pid 77, job 1234" of an owner that died without releasing; empty when there was none.
  [[nodiscard]] const std::string& stale_owner() const {
    return stale_owner_;
  }

 private:
  std::filesystem::path path_;
  std::string stale_owner_;
  int fd_ = -1;
};

}  // namespace cambium::checkpoint
