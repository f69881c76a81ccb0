// unit/checkpoint/thread_ranks.hpp — threads that play ranks, for what a unit test wants to see of
// several ranks. Only the calls that the checkpoint makes are there. Real ranks are in
// tests/mpi/checkpoint_*.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.hpp"

namespace cambium::testing {

struct ThreadBoard {
  explicit ThreadBoard(int ranks) : barrier(ranks), posted(static_cast<std::size_t>(ranks)) {}

  std::barrier<> barrier;
  std::vector<const void*> posted;
};

class ThreadGroup : public comm::Group {
 public:
  ThreadGroup(ThreadBoard& board, int rank) : board_(board), rank_(rank) {}

  int rank() const override {
    return rank_;
  }

  int size() const override {
    return static_cast<int>(board_.posted.size());
  }

  const std::string& name() const override {
    return name_;
  }

  void barrier() override {
    board_.barrier.arrive_and_wait();
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    const void* from = exchange(data)[static_cast<std::size_t>(root)];
    if (rank_ != root && bytes > 0) {
      std::memcpy(data, from, bytes);
    }
    barrier();
  }

  void all_gather(const void* sent,
                  std::span<const std::size_t> bytes_by_rank,
                  void* received) override {
    const auto& posted = exchange(sent);
    char* to = static_cast<char*>(received);
    for (std::size_t r = 0; r < posted.size(); ++r) {
      if (bytes_by_rank[r] > 0) {
        std::memcpy(to, posted[r], bytes_by_rank[r]);
      }
      to += bytes_by_rank[r];
    }
    barrier();
  }

  void all_reduce(std::span<std::int64_t> values, comm::Reduce op) override {
    const std::vector<std::int64_t> mine(values.begin(), values.end());
    const auto& posted = exchange(mine.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t r = 0; r < posted.size(); ++r) {
        const std::int64_t other = static_cast<const std::int64_t*>(posted[r])[i];
        const std::int64_t old = values[i];
        values[i] = r == 0                    ? other
                    : op == comm::Reduce::sum ? old + other
                    : op == comm::Reduce::min ? std::min(old, other)
                                              : std::max(old, other);
      }
    }
    barrier();
  }

  void all_to_all(const void*,
                  std::span<const std::size_t>,
                  std::span<const std::size_t>,
                  void*,
                  std::span<const std::size_t>) override {
    unused();
  }

  void all_reduce(std::span<double>, comm::Reduce) override {
    unused();
  }

  void all_reduce(std::span<float>, comm::Reduce) override {
    unused();
  }

  void all_reduce_or(std::span<std::uint32_t>) override {
    unused();
  }

  comm::Request send(const void*, std::size_t, int, int) override {
    unused();
  }

  comm::Request receive(void*, std::size_t, int, int) override {
    unused();
  }

 private:
  [[noreturn]] static void unused() {
    throw Error(Code::bug, "thread group: not played");
  }

  const std::vector<const void*>& exchange(const void* mine) {
    board_.posted[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    return board_.posted;
  }

  ThreadBoard& board_;
  int rank_;
  std::string name_ = "threads";
};

// Runs work(group) on `ranks` threads; rethrows the lowest rank's exception. Work must fail on all
// ranks or on none.
inline void run_on_ranks(int ranks, const std::function<void(comm::Group&)>& work) {
  ThreadBoard board(ranks);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      ThreadGroup group(board, r);
      try {
        work(group);
      } catch (...) {
        failures[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace cambium::testing
