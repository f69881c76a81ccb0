// device/stream.hpp — where kernels run: a backend, its threads, its scratch memory, its counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/buffer.hpp"
#include "device/profile.hpp"
#include "device/thread_pool.hpp"

namespace cambium::device {

enum class Backend : std::uint8_t { reference, cpu, cuda };

[[nodiscard]] const char* name_of(Backend backend);

// What a rank has done so far; the layout test reads it. Multiply and add count as two.
struct Counters {
  std::int64_t product_flops = 0;
  std::int64_t attention_flops = 0;
};

// Kernels of one Stream run in the order of their calls. On `reference` and `cpu` a call has
// finished when it returns.
class Stream {
 public:
  Stream(Backend backend, int threads)
      : backend_(backend), pool_(threads), scratch_(static_cast<std::size_t>(pool_.size())) {}

  [[nodiscard]] Backend backend() const {
    return backend_;
  }

  [[nodiscard]] ThreadPool& pool() {
    return pool_;
  }

  [[nodiscard]] Counters& counters() {
    return counters_;
  }

  // Null unless somebody measures.
  [[nodiscard]] Profile* profile() const {
    return profile_;
  }

  // Borrows; null ends the measurement.
  void set_profile(Profile* profile) {
    profile_ = profile;
  }

  // Scratch of at least `bytes`, 64-byte aligned, one block per thread; grows at most in the first
  // step, then is reused.
  [[nodiscard]] void* scratch(int thread, std::size_t bytes);

 private:
  Backend backend_;
  ThreadPool pool_;
  Counters counters_;
  Profile* profile_ = nullptr;
  std::vector<Buffer> scratch_;
};

}  // namespace cambium::device
