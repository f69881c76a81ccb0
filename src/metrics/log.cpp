// SPDX-License-Identifier: Apache-2.0
#include "metrics/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "base/error.hpp"

namespace cambium::metrics {

struct Log::Impl {
  spdlog::logger logger;
};

Log::Log() = default;

Log::Log(const std::filesystem::path& run, int attempt) {
  try {
    auto sink =
        std::make_shared<spdlog::sinks::basic_file_sink_mt>((run / "log.txt").string(), false);
    impl_ = std::make_unique<Impl>(Impl{spdlog::logger("cambium", std::move(sink))});
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(Code::storage, (run / "log.txt").string() + ": cannot open: " + error.what());
  }
  impl_->logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z [attempt " + std::to_string(attempt) +
                            "] [%l] %v");
  impl_->logger.flush_on(spdlog::level::trace);
  impl_->logger.set_error_handler([](const std::string& /*message*/) {});
}

Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::info(std::string_view text) {
  if (impl_) {
    impl_->logger.info("{}", text);
  }
}

void Log::warn(std::string_view text) {
  if (impl_) {
    impl_->logger.warn("{}", text);
  }
}

void Log::error(std::string_view text) {
  if (impl_) {
    impl_->logger.error("{}", text);
  }
}

}  // namespace cambium::metrics
