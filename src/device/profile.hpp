// device/profile.hpp — where a step's time goes, by class of work. A Stream without a Profile pays
// one test a call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cambium::device {

// Kernels name their own class. A caller may claim what it runs for a class of its own (head,
// gradient_sum, …): then the kernels inside count there.
enum class Work : std::uint8_t {
  other,  // between the calls below: the host's own code
  product_forward,
  product_backward_input,
  product_backward_weight,
  attention,
  rows,  // norm, rope, activation, elementwise, sums over the tensor shards of this rank
  embedding,
  pack,
  adamw,
  // Claims:
  head,  // logits, loss, their gradients
  tensor_exchange,
  pipeline_exchange,
  gradient_sum,   // over data shards, and token sums over tensor shards
  gradient_norm,  // and what rides on its messages
  value_gather
};

inline constexpr std::size_t kWorks = 15;

[[nodiscard]] const char* name_of(Work work);

// Every moment between start() and stop() belongs to exactly one class. For the thread that calls
// the kernels.
class Profile {
 public:
  struct Entry {
    double seconds = 0;
    double flops = 0;
    double bytes = 0;  // that the kernels read and write at least once
    std::int64_t calls = 0;
  };

  // Forgets what was measured; the clock runs in `other`.
  void start();
  void stop();

  [[nodiscard]] const Entry& of(Work work) const {
    return entries_[static_cast<std::size_t>(work)];
  }

  // Since start(), all classes together.
  [[nodiscard]] double seconds() const;

  // Enters `work` unless a claim is in force that keeps it; returns what to go back to.
  Work enter(Work work, double flops, double bytes);
  void leave(Work back);

 private:
  using Clock = std::chrono::steady_clock;

  void charge();

  std::array<Entry, kWorks> entries_{};
  Work current_ = Work::other;
  Clock::time_point since_ = Clock::now();
};

// Until its end, time counts as `work`; for a null profile nothing is done.
class WorkScope {
 public:
  WorkScope(Profile* profile, Work work, double flops = 0, double bytes = 0) : profile_(profile) {
    if (profile_ != nullptr) {
      back_ = profile_->enter(work, flops, bytes);
    }
  }

  ~WorkScope() {
    if (profile_ != nullptr) {
      profile_->leave(back_);
    }
  }

  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  Profile* profile_;
  Work back_ = Work::other;
};

}  // namespace cambium::device
