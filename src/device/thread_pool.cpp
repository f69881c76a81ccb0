// SPDX-License-Identifier: Apache-2.0
#include "device/thread_pool.hpp"

#include <type_traits>

namespace cambium::device {
namespace {

// Long enough for the gap between two kernels of a step, short enough not to burn an idle core.
constexpr int kSpins = 4000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int t = 1; t < threads; ++t) {
    workers_.emplace_back([this, t] { serve(t); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

void ThreadPool::run_erased(Call call, void* context) {
  call_ = call;
  context_ = context;
  failure_ = nullptr;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  std::exception_ptr mine;
  try {
    call(context, 0);
  } catch (...) {
    mine = std::current_exception();
  }
  for (int spin = 0; pending_.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (mine != nullptr) {
    std::rethrow_exception(mine);
  }
  if (failure_ != nullptr) {
    std::rethrow_exception(failure_);
  }
}

void ThreadPool::serve(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen;
         ++spin) {
      pause();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_acquire) != seen; });
    }
    ++seen;
    if (stopping_) {
      return;
    }
    try {
      call_(context_, thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) {
        failure_ = std::current_exception();
      }
    }
    pending_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace cambium::device
