// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "base/error.hpp"
#include "comm/fault.hpp"

namespace cambium::comm {

struct Watchdog::Impl {
  int rank = 0;
  std::string host;
  std::filesystem::path attempt_folder;
  std::chrono::seconds limit{0};

  std::atomic<std::uint64_t> beats{0};
  std::atomic<std::int64_t> step{0};
  std::atomic<const char*> action{"start"};

  std::mutex mutex;
  std::condition_variable wake;
  bool is_stopping = false;
  std::thread thread;

  void watch();
  [[noreturn]] void fire() const;
};

// Durations are of steady_clock, so a moved wall clock fires nothing. A gap between two looks that
// is much longer than the period means that the whole process was stopped (SIGSTOP, a suspended
// machine): it counts as one period.
void Watchdog::Impl::watch() {
  using Clock = std::chrono::steady_clock;
  const auto period = std::clamp<Clock::duration>(
      limit / 10, std::chrono::milliseconds(100), std::chrono::seconds(1));
  Clock::duration silence{0};
  std::uint64_t seen = beats.load(std::memory_order_acquire);
  Clock::time_point last = Clock::now();
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, period, [this] { return is_stopping; })) {
    const Clock::time_point now = Clock::now();
    const std::uint64_t count = beats.load(std::memory_order_acquire);
    silence = count == seen ? silence + std::min(now - last, 2 * period) : Clock::duration{0};
    seen = count;
    last = now;
    if (silence >= limit) {
      fire();
    }
  }
}

void Watchdog::Impl::fire() const {
  std::string text =
      fmt::format("rank {} ({}): no progress for {} s in step {}, last action \"{}\"",
                  rank,
                  host,
                  limit.count(),
                  step.load(std::memory_order_relaxed),
                  action.load(std::memory_order_relaxed));
  if (!attempt_folder.empty()) {
    text += "; see " + (attempt_folder / "FAULT").string();
  }
  constexpr int code = static_cast<int>(Code::no_progress);
  if (claim_fault(attempt_folder, text) == Claim::lost) {
    wait_for_the_end(code);
  }
  ::_exit(code);  // the launcher ends the others; MPI may be what hangs, so it is not asked
}

Watchdog::Watchdog(int rank,
                   std::string host,
                   std::filesystem::path attempt_folder,
                   std::chrono::seconds limit)
    : impl_(std::make_unique<Impl>()) {
  impl_->rank = rank;
  impl_->host = std::move(host);
  impl_->attempt_folder = std::move(attempt_folder);
  impl_->limit = limit;
  if (limit > std::chrono::seconds(0)) {
    impl_->thread = std::thread([impl = impl_.get()] { impl->watch(); });
  }
}

Watchdog::~Watchdog() {
  if (impl_->thread.joinable()) {
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->is_stopping = true;
    }
    impl_->wake.notify_all();
    impl_->thread.join();
  }
}

void Watchdog::beat(std::int64_t step, const char* action) {
  impl_->step.store(step, std::memory_order_relaxed);
  impl_->action.store(action, std::memory_order_relaxed);
  impl_->beats.fetch_add(1, std::memory_order_release);
}

}  // namespace cambium::comm
