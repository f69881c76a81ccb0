// comm/watchdog.hpp — nobody fails, nothing moves: a thread that ends the run with code 15. It
// calls no MPI. Each rank watches its own heartbeat; a rank blocked in a collective by a peer's
// silence is silent itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace cambium::comm {

class Watchdog {
 public:
  // After `limit` without beat() it writes FAULT in attempt_folder (first rank wins, prints one
  // line naming rank, host, step and last action) and ends the process with 15. A limit of zero
  // switches it off.
  Watchdog(int rank,
           std::string host,
           std::filesystem::path attempt_folder,
           std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `action` must be a string literal. Lock-free; called between actions of a step.
  void beat(std::int64_t step, const char* action);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cambium::comm
