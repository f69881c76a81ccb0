// metrics/progress.hpp — the live line on a terminal, plain lines in a batch log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace cambium::metrics {

// Seconds on the steady clock: no step of the wall clock makes a duration negative.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void restart() {
    start_ = std::chrono::steady_clock::now();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct ProgressUpdate {
  std::string phase;
  dim_t step = 0;        // of the campaign
  dim_t phase_step = 0;  // 1 … phase_total
  dim_t phase_total = 0;
  double loss = 0;
  double tokens_per_second = 0;
  std::string extra;  // "coverage 0.42"; may be empty
};

struct ProgressOptions {
  int file = 1;       // the descriptor written to
  bool live = false;  // one line, rewritten; see is_live
  int attempt = 1;
  double every_seconds = 10;      // plain lines: at most one in this time …
  dim_t every_steps = 0;          // … or one each so many steps; 0: by time only
  std::function<double()> clock;  // seconds; empty: the steady clock. For tests
};

[[nodiscard]] bool is_terminal(int file);

enum class ProgressMode { automatic, live, plain };

// What ProgressOptions::live should be. mpirun gives every rank a pseudo-terminal, also in a batch
// log, so that `automatic` believes a terminal only where no launcher started the process.
[[nodiscard]] bool is_live(ProgressMode mode, bool has_launcher, bool is_terminal);

// Never reads stdin, never throws, never stops the run: when the descriptor is closed or its reader
// is gone, it falls silent, and SIGPIPE is not delivered.
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // First and last step of a phase always make a plain line.
  void update(const ProgressUpdate& update);

  // A whole line of its own, above the live line.
  void line(std::string_view text);

  // Ends a live line with a line break.
  void finish();

 private:
  [[nodiscard]] double now() const;
  [[nodiscard]] std::string render(const ProgressUpdate& update, double now_seconds) const;
  void put(std::string_view text);

  ProgressOptions options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string phase_;
  dim_t first_step_ = 0;
  double phase_start_ = 0;
  double last_line_ = 0;
  std::size_t live_width_ = 0;
  bool broken_ = false;
};

// Opens /dev/null on the descriptors 0 to 2 that the caller left closed, so that no file of ours
// gets their number and is written to by a message. For the first line of main.
void open_missing_standard_files();

}  // namespace cambium::metrics
