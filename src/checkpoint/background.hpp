// checkpoint/background.hpp — writing a checkpoint beside training. A thread of each rank works on
// the disk, from a copy; it calls no MPI, so that MPI_THREAD_FUNNELED is enough. What ranks must
// tell each other is said by their main threads between two steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "checkpoint/write.hpp"
#include "checkpoint/write_steps.hpp"

namespace cambium::checkpoint {

// Bytes of a copy of what this rank writes.
[[nodiscard]] std::size_t staging_bytes(const WriteRequest& request);

// One checkpoint on its way to the disk: the same bytes, names and guarantees as write_checkpoint.
// First all ranks write their shards, then rank 0 completes, publishes and prunes.
class BackgroundWrite {
 public:
  // Copies the slices into `staging` (staging_bytes, kept until the end) and starts. Collective
  // over: group. Throws as write_checkpoint's plan does.
  BackgroundWrite(comm::Group& group, WriteRequest request, std::span<std::byte> staging);
  // Waits for this rank's thread. What was not finished stays a .partial folder.
  ~BackgroundWrite();
  BackgroundWrite(const BackgroundWrite&) = delete;
  BackgroundWrite& operator=(const BackgroundWrite&) = delete;

  // Whether this rank's thread is at work. Local.
  [[nodiscard]] bool is_busy() const {
    return is_busy_.load(std::memory_order_acquire);
  }

  // One act further; waits for threads that are still at work, so call it where no rank is busy.
  // True when the checkpoint is whole on disk. Collective over: group. Throws the same AgreedError
  // on every rank when a thread failed; `latest` then stands where it stood.
  bool advance();

  // Waits to the end.
  WriteResult finish();

  // After advance() returned true.
  [[nodiscard]] const WriteResult& result() const {
    return result_;
  }

  [[nodiscard]] dim_t step() const {
    return request_.step;
  }

 private:
  enum class Act : std::uint8_t { shards, completion, done };

  void copy_slices(std::span<std::byte> staging);
  void start(std::function<void()> work);
  void join();

  comm::Group& group_;
  WriteRequest request_;
  Plan plan_;
  std::vector<std::int64_t> record_;
  WriteResult result_;
  Act act_ = Act::shards;
  std::atomic<bool> is_busy_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace cambium::checkpoint
