// device/thread_pool.hpp — one pool, static split: thread t of n always gets the same share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/types.hpp"

namespace cambium::device {

class ThreadPool {
 public:
  // `threads` ≥ 1; the caller is thread 0.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const {
    return static_cast<int>(workers_.size()) + 1;
  }

  // Runs work(t) for t = 0 … size()-1 and waits for all. The first exception of a thread is
  // rethrown here.
  template <typename F>
  void run(F&& work) {
    if (workers_.empty()) {
      work(0);
      return;
    }
    using Callable = std::remove_reference_t<F>;
    run_erased([](void* context, int t) { (*static_cast<Callable*>(context))(t); },
               const_cast<void*>(static_cast<const void*>(&work)));
  }

  // Splits [0, n) by share(): thread t runs work(t, range) when its range is not empty.
  template <typename F>
  void split(dim_t n, F&& work) {
    const int parts = size();
    run([&](int t) {
      const Range r = share(n, parts, t);
      if (r.size() > 0) {
        work(t, r);
      }
    });
  }

 private:
  using Call = void (*)(void*, int);
  void run_erased(Call call, void* context);
  void serve(int thread);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> pending_{0};
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr failure_;
  bool stopping_ = false;
};

}  // namespace cambium::device
