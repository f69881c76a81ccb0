// comm/mpi_group.hpp — a Group over an MPI communicator. Private to comm_mpi: it includes <mpi.h>.
// Transfers are cut at 1 GiB, so sizes past MPI's int counts work. Collectives and
// messages allocate nothing after the first ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mpi.h>
#include <string>
#include <vector>

#include "comm/group.hpp"

namespace cambium::comm {

// Throws Error(comm) with MPI's text unless rc is MPI_SUCCESS.
void check_mpi(int rc, const std::string& where);

class TransferPool;

class MpiGroup : public Group {
 public:
  // Owns `communicator`, and sets it to return errors. Freed in the destructor unless MPI is over
  // or an exception that the other ranks may not know of is passing.
  // `piece`: most bytes of one transfer, a multiple of 8; tests make it small.
  MpiGroup(MPI_Comm communicator, std::string name, std::size_t piece = std::size_t{1} << 30);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  [[nodiscard]] int rank() const override {
    return rank_;
  }

  [[nodiscard]] int size() const override {
    return size_;
  }

  [[nodiscard]] const std::string& name() const override {
    return name_;
  }

  void barrier() override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void all_gather(const void* sent,
                  std::span<const std::size_t> bytes_by_rank,
                  void* received) override;
  void all_to_all(const void* sent,
                  std::span<const std::size_t> sent_offsets,
                  std::span<const std::size_t> sent_bytes,
                  void* received,
                  std::span<const std::size_t> received_bytes) override;
  void all_reduce(std::span<std::int64_t> values, Reduce op) override;
  void all_reduce(std::span<double> values, Reduce op) override;
  void all_reduce(std::span<float> values, Reduce op) override;
  void all_reduce_or(std::span<std::uint32_t> words) override;
  Request send(const void* data, std::size_t bytes, int peer, int tag) override;
  Request receive(void* data, std::size_t bytes, int peer, int tag) override;
  void reserve_requests(std::size_t count) override;

 private:
  void check(int rc, const char* call) const;
  void check_peer(int peer, const char* call) const;
  template <typename T>
  void all_reduce_pieces(std::span<T> values, MPI_Datatype type, MPI_Op op);
  // Calls work(offset, bytes) for each piece, at least once: an empty message is still a message.
  template <typename F>
  void for_each_piece(std::size_t bytes, F&& work) const;
  // Posts the pieces of one message; requests are appended to pending_.
  void post_send(const void* data, std::size_t bytes, int peer);
  void post_receive(void* data, std::size_t bytes, int peer);
  void wait_pending(const char* call);
  void count_exchange(std::size_t bytes, int peers);

  MPI_Comm communicator_;
  std::string name_;
  std::size_t piece_;
  int rank_ = 0;
  int size_ = 1;
  int highest_tag_ = 32767;  // the collectives' own; callers' tags are below it
  std::shared_ptr<TransferPool> transfers_;
  int exceptions_at_start_ = 0;
  std::vector<int> counts_;
  std::vector<int> offsets_;
  std::vector<MPI_Request> pending_;
};

}  // namespace cambium::comm
