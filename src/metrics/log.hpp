// metrics/log.hpp — RUN/log.txt: time, attempt, level, text; appended over all attempts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace cambium::metrics {

class Log {
 public:
  // A log that writes nothing: for ranks other than 0.
  Log();
  // Throws Error(storage).
  Log(const std::filesystem::path& run, int attempt);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  // Each line is flushed. A disk that is full silences the log, not the run. Any thread may call.
  void info(std::string_view text);
  void warn(std::string_view text);
  void error(std::string_view text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cambium::metrics
