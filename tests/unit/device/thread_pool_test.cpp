// tests/unit/device/thread_pool_test.cpp — static split, waiting for all, and failures on threads.
// SPDX-License-Identifier: Apache-2.0
#include "device/thread_pool.hpp"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cambium::device {
namespace {

TEST(ThreadPool, RunsEveryThreadOnceAndWaits) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);

    for (int round = 0; round < 200; ++round) {
      pool.run([&](int t) { ++calls[static_cast<std::size_t>(t)]; });
    }

    EXPECT_EQ(calls, std::vector<int>(static_cast<std::size_t>(threads), 200));
  }
}

TEST(ThreadPool, MakesTheCallerThreadZero) {
  ThreadPool pool(2);
  std::thread::id zero;
  std::thread::id one;

  pool.run([&](int t) { (t == 0 ? zero : one) = std::this_thread::get_id(); });

  EXPECT_EQ(zero, std::this_thread::get_id());
  EXPECT_NE(one, zero);
}

TEST(ThreadPool, SplitsAlwaysInTheSameWay) {
  ThreadPool pool(3);
  for (const dim_t n : {0, 1, 2, 3, 10, 1000}) {
    std::vector<int> owner(static_cast<std::size_t>(n), -1);

    pool.split(n, [&](int t, Range r) {
      for (dim_t i = r.begin; i < r.end; ++i) {
        owner[static_cast<std::size_t>(i)] = t;
      }
    });

    for (int t = 0; t < 3; ++t) {
      const Range r = share(n, 3, t);
      for (dim_t i = r.begin; i < r.end; ++i) {
        EXPECT_EQ(owner[static_cast<std::size_t>(i)], t) << i << " of " << n;
      }
    }
  }
}

TEST(ThreadPool, WakesAThreadThatWentToSleep) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.run([&](int) { calls.fetch_add(1); });
  }
  EXPECT_EQ(calls.load(), 6);
}

TEST(ThreadPool, RethrowsAThreadsFailureAndGoesOn) {
  ThreadPool pool(3);
  for (const int failing : {0, 1, 2}) {
    std::string caught;
    try {
      pool.run([&](int t) {
        if (t == failing) {
          throw std::runtime_error("thread " + std::to_string(t));
        }
      });
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
    EXPECT_EQ(caught, "thread " + std::to_string(failing));
  }
  std::atomic<int> calls{0};
  pool.run([&](int) { calls.fetch_add(1); });
  EXPECT_EQ(calls.load(), 3);
}

}  // namespace
}  // namespace cambium::device
