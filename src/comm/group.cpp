// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <cstring>
#include <deque>
#include <utility>

#include "base/error.hpp"

namespace cambium::comm {
namespace {

// Messages of a rank to itself: matched by tag in order, whichever side comes first.
class Mailbox {
 public:
  struct Slot {
    int tag;
    void* to;
    std::size_t bytes;
    bool is_filled;
  };

  void put(const void* data, std::size_t bytes, int tag) {
    for (const std::shared_ptr<Slot>& slot : waiting_) {
      if (slot->tag == tag && !slot->is_filled) {
        fill(*slot, data, bytes);
        std::erase(waiting_, slot);
        return;
      }
    }
    const auto* first = static_cast<const std::byte*>(data);
    arrived_.push_back({tag, std::vector<std::byte>(first, first + bytes)});
  }

  // The slot is filled at once when the message is there.
  std::shared_ptr<Slot> take(void* data, std::size_t bytes, int tag) {
    auto slot = std::make_shared<Slot>(Slot{tag, data, bytes, false});
    for (auto message = arrived_.begin(); message != arrived_.end(); ++message) {
      if (message->tag == tag) {
        fill(*slot, message->content.data(), message->content.size());
        arrived_.erase(message);
        return slot;
      }
    }
    waiting_.push_back(slot);
    return slot;
  }

 private:
  struct Message {
    int tag;
    std::vector<std::byte> content;
  };

  static void fill(Slot& slot, const void* data, std::size_t bytes) {
    if (bytes != slot.bytes) {
      throw Error(Code::comm,
                  "receive from itself, tag " + std::to_string(slot.tag) + ": expected " +
                      std::to_string(slot.bytes) + " bytes, got " + std::to_string(bytes));
    }
    if (bytes > 0) {
      std::memcpy(slot.to, data, bytes);
    }
    slot.is_filled = true;
  }

  std::deque<Message> arrived_;
  std::vector<std::shared_ptr<Slot>> waiting_;  // shared: with the request that waits for it
};

class SelfReceive : public Request::State {
 public:
  explicit SelfReceive(std::shared_ptr<Mailbox::Slot> slot) : slot_(std::move(slot)) {}

  void wait() override {
    if (!slot_->is_filled) {
      throw Error(Code::comm,
                  "receive from itself, tag " + std::to_string(slot_->tag) +
                      ": nothing was sent; it would never end");
    }
  }

  bool test() override {
    return slot_->is_filled;
  }

 private:
  std::shared_ptr<Mailbox::Slot> slot_;
};

class SelfGroup : public Group {
 public:
  explicit SelfGroup(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] int rank() const override {
    return 0;
  }

  [[nodiscard]] int size() const override {
    return 1;
  }

  [[nodiscard]] const std::string& name() const override {
    return name_;
  }

  void barrier() override {}

  void broadcast(void* /*data*/, std::size_t /*bytes*/, int root) override {
    check_peer(root);
  }

  void all_gather(const void* sent,
                  std::span<const std::size_t> bytes_by_rank,
                  void* received) override {
    CAMBIUM_CHECK(bytes_by_rank.size() == 1, "all_gather: one size a rank");
    copy(received, sent, bytes_by_rank[0]);
  }

  void all_to_all(const void* sent,
                  std::span<const std::size_t> sent_offsets,
                  std::span<const std::size_t> sent_bytes,
                  void* received,
                  std::span<const std::size_t> received_bytes) override {
    CAMBIUM_CHECK(sent_offsets.size() == 1 && sent_bytes.size() == 1 && received_bytes.size() == 1,
                  "all_to_all: one size a rank");
    CAMBIUM_CHECK(sent_bytes[0] == received_bytes[0], "all_to_all: sent and received sizes differ");
    if (sent_bytes[0] > 0) {
      copy(received, static_cast<const char*>(sent) + sent_offsets[0], sent_bytes[0]);
    }
  }

  void all_reduce(std::span<std::int64_t> /*values*/, Reduce /*op*/) override {}

  void all_reduce(std::span<double> /*values*/, Reduce /*op*/) override {}

  void all_reduce(std::span<float> /*values*/, Reduce /*op*/) override {}

  void all_reduce_or(std::span<std::uint32_t> /*words*/) override {}

  Request send(const void* data, std::size_t bytes, int peer, int tag) override {
    check_peer(peer);
    mailbox_.put(data, bytes, tag);
    return {};
  }

  Request receive(void* data, std::size_t bytes, int peer, int tag) override {
    check_peer(peer);
    auto slot = mailbox_.take(data, bytes, tag);
    return slot->is_filled ? Request{} : Request(std::make_unique<SelfReceive>(std::move(slot)));
  }

 private:
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) {
      std::memmove(to, from, bytes);
    }
  }

  void check_peer(int peer) const {
    CAMBIUM_CHECK(peer == 0,
                  "group " + name_ + " has one rank, not a rank " + std::to_string(peer));
  }

  std::string name_;
  Mailbox mailbox_;
};

}  // namespace

std::unique_ptr<Group> make_self_group(std::string name) {
  return std::make_unique<SelfGroup>(std::move(name));
}

}  // namespace cambium::comm
