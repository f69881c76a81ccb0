// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_group.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "comm/wait_clock.hpp"

namespace cambium::comm {
namespace {

MPI_Op op_of(Reduce op) {
  switch (op) {
    case Reduce::sum:
      return MPI_SUM;
    case Reduce::min:
      return MPI_MIN;
    case Reduce::max:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

}  // namespace

// A message of one or more pieces under way. Dropped without wait() only while the process is
// ending: the request is given back to MPI, which is all that can be done without blocking.
class MpiTransfer : public Request::State {
 public:
  enum class Direction { send, receive };

  void begin(std::shared_ptr<TransferPool> pool,
             Direction direction,
             int peer,
             int tag,
             std::size_t expected) {
    pool_ = std::move(pool);
    direction_ = direction;
    peer_ = peer;
    tag_ = tag;
    expected_ = expected;
    got_ = 0;
    requests_.clear();
  }

  ~MpiTransfer() override {
    give_back();
  }

  MpiTransfer() = default;
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  void reserve() {
    requests_.reserve(1);
  }

  MPI_Request& add() {
    return requests_.emplace_back(MPI_REQUEST_NULL);
  }

  void check(int rc) const {
    if (rc != MPI_SUCCESS) {
      check_mpi(rc, where());
    }
  }

  void wait() override {
    const WaitClock clock;
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) {
        MPI_Status status;
        check(MPI_Wait(&request, &status));
        note(status);
      }
    }
    check_size();
  }

  bool test() override {
    for (MPI_Request& request : requests_) {
      if (request != MPI_REQUEST_NULL) {
        MPI_Status status;
        int is_over = 0;
        check(MPI_Test(&request, &is_over, &status));
        if (is_over == 0) {
          return false;
        }
        note(status);
      }
    }
    check_size();
    return true;
  }

  void release() override;

 private:
  [[nodiscard]] std::string where() const;

  // A piece is over: what it brought.
  void note(const MPI_Status& status) {
    if (direction_ == Direction::receive) {
      int n = 0;
      MPI_Get_count(&status, MPI_BYTE, &n);
      got_ += static_cast<std::size_t>(n);
    }
  }

  void check_size() const {
    if (direction_ == Direction::receive && got_ != expected_) {
      throw Error(Code::comm,
                  fmt::format("{}: expected {} bytes, got {}", where(), expected_, got_));
    }
  }

  void give_back() {
    int is_finalized = 0;
    MPI_Finalized(&is_finalized);
    for (MPI_Request& request : requests_) {
      if (is_finalized == 0 && request != MPI_REQUEST_NULL) {
        MPI_Request_free(&request);
      }
    }
    requests_.clear();
  }

  std::shared_ptr<TransferPool> pool_;  // while under way; it may outlive its group
  Direction direction_ = Direction::send;
  int peer_ = 0;
  int tag_ = 0;
  std::size_t expected_ = 0;
  std::size_t got_ = 0;
  std::vector<MPI_Request> requests_;
};

// Transfers that are over, kept for the next messages: a step takes no memory for its messages.
class TransferPool : public std::enable_shared_from_this<TransferPool> {
 public:
  explicit TransferPool(std::string group) : group_(std::move(group)) {}

  [[nodiscard]] std::unique_ptr<MpiTransfer> take(MpiTransfer::Direction direction,
                                                  int peer,
                                                  int tag,
                                                  std::size_t expected) {
    std::unique_ptr<MpiTransfer> transfer;
    if (idle_.empty()) {
      transfer = std::make_unique<MpiTransfer>();
    } else {
      transfer = std::move(idle_.back());
      idle_.pop_back();
    }
    transfer->begin(shared_from_this(), direction, peer, tag, expected);
    return transfer;
  }

  void reserve(std::size_t count) {
    idle_.reserve(idle_.size() + count);
    for (std::size_t i = 0; i < count; ++i) {
      idle_.push_back(std::make_unique<MpiTransfer>());
      idle_.back()->reserve();
    }
  }

  void keep(std::unique_ptr<MpiTransfer> transfer) {
    idle_.push_back(std::move(transfer));
  }

  [[nodiscard]] const std::string& group() const {
    return group_;
  }

 private:
  std::string group_;
  std::vector<std::unique_ptr<MpiTransfer>> idle_;
};

void MpiTransfer::release() {
  std::unique_ptr<MpiTransfer> self(this);
  give_back();
  const std::shared_ptr<TransferPool> pool = std::move(pool_);
  pool->keep(std::move(self));
}

std::string MpiTransfer::where() const {
  const bool sends = direction_ == Direction::send;
  return fmt::format("{} rank {} of group {}, tag {}",
                     sends ? "send to" : "receive from",
                     peer_,
                     pool_->group(),
                     tag_);
}

void check_mpi(int rc, const std::string& where) {
  if (rc == MPI_SUCCESS) {
    return;
  }
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS) {
    throw Error(Code::comm, fmt::format("{}: MPI error {}", where, rc));
  }
  throw Error(Code::comm, fmt::format("{}: {}", where, text));
}

MpiGroup::MpiGroup(MPI_Comm communicator, std::string name, std::size_t piece)
    : communicator_(communicator),
      name_(std::move(name)),
      piece_(piece),
      transfers_(std::make_shared<TransferPool>(name_)),
      exceptions_at_start_(std::uncaught_exceptions()) {
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  void* value = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &value, &is_set), "MPI_Comm_get_attr");
  if (is_set != 0) {
    highest_tag_ = *static_cast<int*>(value);
  }
  counts_.resize(static_cast<std::size_t>(size_));
  offsets_.resize(static_cast<std::size_t>(size_));
  pending_.reserve(2 * static_cast<std::size_t>(size_));
}

MpiGroup::~MpiGroup() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized == 0 && std::uncaught_exceptions() == exceptions_at_start_) {
    MPI_Comm_free(&communicator_);  // collective: never while the peers wait elsewhere
  }
}

void MpiGroup::check(int rc, const char* call) const {
  if (rc != MPI_SUCCESS) {
    check_mpi(rc, fmt::format("{} on group {} ({} ranks), rank {}", call, name_, size_, rank_));
  }
}

void MpiGroup::check_peer(int peer, const char* call) const {
  if (peer < 0 || peer >= size_) {
    throw Error(Code::bug,
                fmt::format("{}: group {} has {} ranks, not a rank {}", call, name_, size_, peer));
  }
}

template <typename F>
void MpiGroup::for_each_piece(std::size_t bytes, F&& work) const {
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(piece_, bytes - done);
    work(done, static_cast<int>(n));
    done += n;
  } while (done < bytes);
}

// To each of `peers` others.
void MpiGroup::count_exchange(std::size_t bytes, int peers) {
  count_sent(bytes * static_cast<std::size_t>(peers));
}

void MpiGroup::barrier() {
  const WaitClock clock;
  check(MPI_Barrier(communicator_), "barrier");
}

void MpiGroup::broadcast(void* data, std::size_t bytes, int root) {
  check_peer(root, "broadcast");
  if (bytes == 0) {
    return;
  }
  const WaitClock clock;
  for_each_piece(bytes, [&](std::size_t offset, int n) {
    check(MPI_Bcast(static_cast<char*>(data) + offset, n, MPI_BYTE, root, communicator_),
          "broadcast");
  });
  if (rank_ == root) {
    count_exchange(bytes, size_ - 1);
  }
}

void MpiGroup::post_send(const void* data, std::size_t bytes, int peer) {
  for_each_piece(bytes, [&](std::size_t offset, int n) {
    pending_.push_back(MPI_REQUEST_NULL);
    const void* from = static_cast<const char*>(data) + offset;
    check(MPI_Isend(from, n, MPI_BYTE, peer, highest_tag_, communicator_, &pending_.back()),
          "send of a part");
  });
}

void MpiGroup::post_receive(void* data, std::size_t bytes, int peer) {
  for_each_piece(bytes, [&](std::size_t offset, int n) {
    pending_.push_back(MPI_REQUEST_NULL);
    void* to = static_cast<char*>(data) + offset;
    check(MPI_Irecv(to, n, MPI_BYTE, peer, highest_tag_, communicator_, &pending_.back()),
          "receive of a part");
  });
}

void MpiGroup::wait_pending(const char* call) {
  const WaitClock clock;
  check(MPI_Waitall(static_cast<int>(pending_.size()), pending_.data(), MPI_STATUSES_IGNORE), call);
  pending_.clear();
}

void MpiGroup::all_gather(const void* sent,
                          std::span<const std::size_t> bytes_by_rank,
                          void* received) {
  CAMBIUM_CHECK(bytes_by_rank.size() == static_cast<std::size_t>(size_),
                "all_gather: one size a rank");
  const std::size_t total =
      std::accumulate(bytes_by_rank.begin(), bytes_by_rank.end(), std::size_t{0});
  const auto own = static_cast<std::size_t>(rank_);
  std::size_t own_offset = 0;
  std::size_t offset = 0;
  for (std::size_t r = 0; r < bytes_by_rank.size(); ++r) {
    own_offset = r == own ? offset : own_offset;
    counts_[r] = static_cast<int>(std::min(bytes_by_rank[r], piece_));
    offsets_[r] = static_cast<int>(std::min(offset, piece_));
    offset += bytes_by_rank[r];
  }
  if (total == 0) {
    return;
  }
  char* const place = static_cast<char*>(received) + own_offset;
  if (sent != place && bytes_by_rank[own] > 0) {
    std::memcpy(place, sent, bytes_by_rank[own]);
  }
  count_exchange(bytes_by_rank[own], size_ - 1);
  if (total <= piece_) {  // all ranks know all sizes, so all take the same way
    const WaitClock clock;
    check(MPI_Allgatherv(MPI_IN_PLACE,
                         0,
                         MPI_DATATYPE_NULL,
                         received,
                         counts_.data(),
                         offsets_.data(),
                         MPI_BYTE,
                         communicator_),
          "all_gather");
    return;
  }
  offset = 0;
  for (int r = 0; r < size_; ++r) {
    const std::size_t bytes = bytes_by_rank[static_cast<std::size_t>(r)];
    if (r != rank_ && bytes > 0) {
      post_receive(static_cast<char*>(received) + offset, bytes, r);
    }
    offset += bytes;
  }
  for (int i = 1; i < size_ && bytes_by_rank[own] > 0; ++i) {
    post_send(place, bytes_by_rank[own], (rank_ + i) % size_);
  }
  wait_pending("all_gather");
}

// Point to point: only the two ends of a part know its size, so a choice by size could differ
// between ranks.
void MpiGroup::all_to_all(const void* sent,
                          std::span<const std::size_t> sent_offsets,
                          std::span<const std::size_t> sent_bytes,
                          void* received,
                          std::span<const std::size_t> received_bytes) {
  const auto n = static_cast<std::size_t>(size_);
  CAMBIUM_CHECK(sent_offsets.size() == n && sent_bytes.size() == n && received_bytes.size() == n,
                "all_to_all: one size a rank");
  const auto own = static_cast<std::size_t>(rank_);
  CAMBIUM_CHECK(sent_bytes[own] == received_bytes[own], "all_to_all: the own part's sizes differ");
  const auto* from = static_cast<const char*>(sent);
  char* to = static_cast<char*>(received);
  char* own_place = nullptr;
  for (int r = 0; r < size_; ++r) {
    const std::size_t bytes = received_bytes[static_cast<std::size_t>(r)];
    if (r == rank_) {
      own_place = to;
    } else if (bytes > 0) {
      post_receive(to, bytes, r);
    }
    to += bytes;
  }
  for (int i = 1; i < size_;
       ++i) {  // each rank starts at its neighbour, so that no one is asked by all at once
    const int peer = (rank_ + i) % size_;
    const auto p = static_cast<std::size_t>(peer);
    if (sent_bytes[p] > 0) {
      post_send(from + sent_offsets[p], sent_bytes[p], peer);
      count_sent(sent_bytes[p]);
    }
  }
  if (sent_bytes[own] > 0) {
    std::memcpy(own_place, from + sent_offsets[own], sent_bytes[own]);
  }
  wait_pending("all_to_all");
}

template <typename T>
void MpiGroup::all_reduce_pieces(std::span<T> values, MPI_Datatype type, MPI_Op op) {
  const WaitClock clock;
  for_each_piece(values.size_bytes(), [&](std::size_t offset, int bytes) {
    const int n = bytes / static_cast<int>(sizeof(T));
    if (n > 0) {
      T* at = values.data() + offset / sizeof(T);
      check(MPI_Allreduce(MPI_IN_PLACE, at, n, type, op, communicator_), "all_reduce");
    }
  });
  // A ring's bytes: what the library really sends is not known.
  const auto ranks = static_cast<std::size_t>(size_);
  count_sent(2 * values.size_bytes() * (ranks - 1) / ranks);
}

void MpiGroup::all_reduce(std::span<std::int64_t> values, Reduce op) {
  all_reduce_pieces(values, MPI_INT64_T, op_of(op));
}

void MpiGroup::all_reduce(std::span<double> values, Reduce op) {
  all_reduce_pieces(values, MPI_DOUBLE, op_of(op));
}

void MpiGroup::all_reduce(std::span<float> values, Reduce op) {
  all_reduce_pieces(values, MPI_FLOAT, op_of(op));
}

void MpiGroup::all_reduce_or(std::span<std::uint32_t> words) {
  all_reduce_pieces(words, MPI_UINT32_T, MPI_BOR);
}

void MpiGroup::reserve_requests(std::size_t count) {
  transfers_->reserve(count);
}

Request MpiGroup::send(const void* data, std::size_t bytes, int peer, int tag) {
  check_peer(peer, "send");
  CAMBIUM_CHECK(tag >= 0 && tag < highest_tag_,
                "send: tag " + std::to_string(tag) + " out of range");
  auto transfer = transfers_->take(MpiTransfer::Direction::send, peer, tag, bytes);
  for_each_piece(bytes, [&](std::size_t offset, int n) {
    const void* from = static_cast<const char*>(data) + offset;
    transfer->check(MPI_Isend(from, n, MPI_BYTE, peer, tag, communicator_, &transfer->add()));
  });
  if (peer != rank_) {
    count_sent(bytes);
  }
  return Request(std::move(transfer));
}

Request MpiGroup::receive(void* data, std::size_t bytes, int peer, int tag) {
  check_peer(peer, "receive");
  CAMBIUM_CHECK(tag >= 0 && tag < highest_tag_,
                "receive: tag " + std::to_string(tag) + " out of range");
  auto transfer = transfers_->take(MpiTransfer::Direction::receive, peer, tag, bytes);
  for_each_piece(bytes, [&](std::size_t offset, int n) {
    void* to = static_cast<char*>(data) + offset;
    transfer->check(MPI_Irecv(to, n, MPI_BYTE, peer, tag, communicator_, &transfer->add()));
  });
  return Request(std::move(transfer));
}

}  // namespace cambium::comm
