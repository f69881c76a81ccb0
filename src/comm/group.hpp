// comm/group.hpp — the ranks that do something together. One rank is a group too: every call is
// then the identity. Functions that are collective take a Group& first; a function without one is
// local (src/comm/README.md has the table). Throws: Error(comm) naming the call, the group and the
// MPI error text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::comm {

enum class Reduce : std::uint8_t { sum, min, max };

// A pending send or receive. wait(), or test() until it says so, before the memory is used again;
// waiting twice is harmless.
class Request {
 public:
  struct State {
    virtual ~State() = default;
    virtual void wait() = 0;

    // Whether it is over; moves messages on, but never waits.
    [[nodiscard]] virtual bool test() = 0;

    // The request lets go of it: a group may keep it for its next message.
    virtual void release() {
      delete this;
    }
  };

  Request() = default;

  explicit Request(std::unique_ptr<State> state) : state_(state.release()) {}

  void wait() {
    if (state_) {
      state_->wait();
      state_.reset();
    }
  }

  [[nodiscard]] bool test() {
    if (state_ && state_->test()) {
      state_.reset();
    }
    return !state_;
  }

  [[nodiscard]] bool is_pending() const {
    return state_ != nullptr;
  }

 private:
  struct Release {
    void operator()(State* state) const {
      state->release();
    }
  };

  std::unique_ptr<State, Release> state_;
};

class Group {
 public:
  virtual ~Group() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // "tensor", "data", "pipeline", "world": for messages.
  [[nodiscard]] virtual const std::string& name() const = 0;

  virtual void barrier() = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  // Rank r contributes bytes_by_rank[r] bytes; they stand one after the other in `received` on
  // every rank. `sent` may be the own place inside `received`.
  virtual void all_gather(const void* sent,
                          std::span<const std::size_t> bytes_by_rank,
                          void* received) = 0;
  // Rank r gets sent[offset[r] … + bytes[r]); the parts received stand one after the other by rank.
  virtual void all_to_all(const void* sent,
                          std::span<const std::size_t> sent_offsets,
                          std::span<const std::size_t> sent_bytes,
                          void* received,
                          std::span<const std::size_t> received_bytes) = 0;
  // Integers and min/max only where bits matter: the order of a floating sum is the library's.
  virtual void all_reduce(std::span<std::int64_t> values, Reduce op) = 0;
  virtual void all_reduce(std::span<double> values, Reduce op) = 0;
  virtual void all_reduce(std::span<float> values, Reduce op) = 0;
  // Bitwise or of whole 32-bit words, in place: joins parts of which all but one are zero without
  // touching a bit.
  virtual void all_reduce_or(std::span<std::uint32_t> words) = 0;
  // Point to point. Messages of one (peer, tag) arrive in order.
  [[nodiscard]] virtual Request send(const void* data, std::size_t bytes, int peer, int tag) = 0;
  [[nodiscard]] virtual Request receive(void* data, std::size_t bytes, int peer, int tag) = 0;

  // So many requests at once will then take no memory.
  virtual void reserve_requests(std::size_t /*count*/) {}

  // Payload bytes that this rank has sent to other ranks (not to itself) since the start.
  [[nodiscard]] std::int64_t bytes_sent() const {
    return bytes_sent_;
  }

 protected:
  void count_sent(std::size_t bytes) {
    bytes_sent_ += static_cast<std::int64_t>(bytes);
  }

 private:
  std::int64_t bytes_sent_ = 0;
};

// The group of this process alone.
[[nodiscard]] std::unique_ptr<Group> make_self_group(std::string name);

}  // namespace cambium::comm
