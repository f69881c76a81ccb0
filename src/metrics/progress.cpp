// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.hpp"

#include <cerrno>
#include <cmath>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

namespace cambium::metrics {
namespace {

// 75 s -> "1:15", 3700 s -> "1:01:40".
std::string clock_text(double seconds) {
  const auto whole = static_cast<dim_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) {
    return fmt::format("{:.2f}M", per_second / 1e6);
  }
  return per_second >= 1e4 ? fmt::format("{:.1f}k", per_second / 1e3)
                           : fmt::format("{:.0f}", per_second);
}

// Keeps SIGPIPE from this thread while it writes, and takes it away if the write raised it.
class PipeShield {
 public:
  PipeShield() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigemptyset(&waiting);
    sigpending(&waiting);
    was_waiting_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }

  ~PipeShield() {
    if (!was_waiting_) {
      const timespec at_once{};
      while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  PipeShield(const PipeShield&) = delete;
  PipeShield& operator=(const PipeShield&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_waiting_ = false;
};

}  // namespace

bool is_terminal(int file) {
  return ::isatty(file) == 1;
}

bool is_live(ProgressMode mode, bool has_launcher, bool is_terminal) {
  switch (mode) {
    case ProgressMode::live:
      return true;
    case ProgressMode::plain:
      return false;
    case ProgressMode::automatic:
      break;
  }
  return !has_launcher && is_terminal;
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {}

Progress::~Progress() {
  finish();
}

double Progress::now() const {
  if (options_.clock) {
    return options_.clock();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string Progress::render(const ProgressUpdate& update, double now_seconds) const {
  std::string text = fmt::format(
      "{} {}/{}  loss {:.4f}", update.phase, update.phase_step, update.phase_total, update.loss);
  if (update.tokens_per_second > 0 && std::isfinite(update.tokens_per_second)) {
    text += fmt::format("  {} tokens/s", rate_text(update.tokens_per_second));
  }
  if (!update.extra.empty()) {
    text += fmt::format("  {}", update.extra);
  }
  const dim_t done = update.phase_step - first_step_;
  const double elapsed = now_seconds - phase_start_;
  if (done > 0 && elapsed > 0 && update.phase_step < update.phase_total) {
    const double left = elapsed / static_cast<double>(done) *
                        static_cast<double>(update.phase_total - update.phase_step);
    text += fmt::format("  ETA {}", clock_text(left));
  }
  return text;
}

void Progress::update(const ProgressUpdate& update) {
  const double seconds = now();
  const bool is_first = update.phase != phase_;
  if (is_first) {
    // Time is measured from the end of the first step seen: it may have carried the start of the
    // phase.
    phase_ = update.phase;
    phase_start_ = seconds;
    first_step_ = update.phase_step;
  }
  const std::string text = render(update, seconds);
  if (options_.live) {
    const std::size_t width = text.size();
    const std::size_t blanks = live_width_ > width ? live_width_ - width : 0;
    put(fmt::format("\r{}{:{}}", text, "", blanks));
    live_width_ = width;
    if (update.phase_step == update.phase_total) {
      finish();
    }
    return;
  }
  const bool is_last = update.phase_step == update.phase_total;
  const bool due = options_.every_steps > 0 ? update.phase_step % options_.every_steps == 0
                                            : seconds - last_line_ >= options_.every_seconds;
  if (is_first || is_last || due) {
    last_line_ = seconds;
    put(fmt::format("[attempt {}] step {}  {}\n", options_.attempt, update.step, text));
  }
}

void Progress::line(std::string_view text) {
  std::string whole;
  if (live_width_ > 0) {
    whole = fmt::format("\r{:{}}\r", "", live_width_);
    live_width_ = 0;
  }
  if (!options_.live) {
    whole += fmt::format("[attempt {}] ", options_.attempt);
  }
  put(whole.append(text).append("\n"));
}

void Progress::finish() {
  if (live_width_ > 0) {
    live_width_ = 0;
    put("\n");
  }
}

void Progress::put(std::string_view text) {
  const PipeShield shield;
  while (!broken_ && !text.empty()) {
    const ssize_t n = ::write(options_.file, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      broken_ = true;  // closed, or its reader is gone: the run goes on without it
    }
  }
}

void open_missing_standard_files() {
  for (int file = 0; file <= 2; ++file) {
    if (::fcntl(file, F_GETFD) == -1 && errno == EBADF) {
      // open gives the lowest free number, which is `file`: all below are open by now.
      (void)::open("/dev/null", file == 0 ? O_RDONLY : O_WRONLY);
    }
  }
}

}  // namespace cambium::metrics
