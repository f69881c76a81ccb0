// comm/signals.hpp — requests to stop: SIGTERM, SIGUSR1 and SIGUSR2 set a flag that the end of a
// step reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>

namespace cambium::comm {

// Installs the handlers, and ignores SIGPIPE (a closed stdout must not kill a save); the destructor
// restores what was. One object at a time. The handlers only write a flag; the first signal is
// kept, repeats are ignored.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that came first, or 0. Local: ranks agree by a max over their answers.
  [[nodiscard]] int pending() const;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

// "SIGTERM" and so on; "signal" for one that StopSignals does not know.
[[nodiscard]] const char* name_of_signal(int signal);

}  // namespace cambium::comm
