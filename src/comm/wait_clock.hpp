// comm/wait_clock.hpp — seconds that this thread has spent inside calls that wait for other ranks.
// What is left of a step is the rank's own work: only that tells a slow rank from its victims.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace cambium::comm {

class WaitClock {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts from construction to destruction. Not nested.
  WaitClock() : begin_(Clock::now()) {}

  ~WaitClock() {
    waited_ += Clock::now() - begin_;
  }

  WaitClock(const WaitClock&) = delete;
  WaitClock& operator=(const WaitClock&) = delete;

  // Of this thread, since its start.
  [[nodiscard]] static double seconds() {
    return std::chrono::duration<double>(waited_).count();
  }

 private:
  static inline thread_local Clock::duration waited_{};
  Clock::time_point begin_;
};

}  // namespace cambium::comm
