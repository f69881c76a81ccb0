// SPDX-License-Identifier: Apache-2.0
#include "comm/signals.hpp"

#include "base/error.hpp"

namespace cambium::comm {
namespace {

// A handler can reach nothing but a global of this type.
volatile std::sig_atomic_t first_signal = 0;
bool is_installed = false;

extern "C" void remember_signal(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
  }
}

}  // namespace

StopSignals::StopSignals() {
  CAMBIUM_CHECK(!is_installed, "two StopSignals at a time");
  is_installed = true;
  first_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};

    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;  // a read or a write under way goes on
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : remember_signal;
    ::sigaction(kSignals[i], &action, &previous_[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &previous_[i], nullptr);
  }
  is_installed = false;
}

int StopSignals::pending() const {
  return first_signal;
}

const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    case SIGINT:
      return "SIGINT";
    case SIGPIPE:
      return "SIGPIPE";
    default:
      return "signal";
  }
}

}  // namespace cambium::comm
