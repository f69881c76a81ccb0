// comm/nccl_group.hpp — a Group over NCCL: pointers are device memory, calls are ordered with the
// thread's CUDA stream. Each call returns when it is enqueued (barrier excepted); kernels launched
// after it see its result. Throws: Error(comm) naming the call, the group and NCCL's text;
// Error(device) for the driver's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"

namespace cambium::comm {

class NcclGroup final : public Group {
 public:
  // Collective over: host, whose broadcast carries the unique ids. The current CUDA device is used.
  // `host` must outlive the group; it also does what NCCL has not: barrier().
  explicit NcclGroup(Group& host);
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  [[nodiscard]] int rank() const override;
  [[nodiscard]] int size() const override;
  [[nodiscard]] const std::string& name() const override;

  // Waits for the device work that was enqueued before, then for all ranks.
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
  // The spans lie in device memory; what the host decides on goes through the host group.
  void all_reduce(std::span<std::int64_t> values, Reduce op) override;
  void all_reduce(std::span<double> values, Reduce op) override;
  void all_reduce(std::span<float> values, Reduce op) override;
  // NCCL has no bitwise or. All words but one are zero by contract, so the integer sum is the same
  // word.
  void all_reduce_or(std::span<std::uint32_t> words) override;
  // Neighbours in the ring of ranks only. NCCL matches by order, not by tag: both sides post the
  // messages of one direction in the same order. wait() makes the CUDA stream wait, not the host.
  [[nodiscard]] Request send(const void* data, std::size_t bytes, int peer, int tag) override;
  [[nodiscard]] Request receive(void* data, std::size_t bytes, int peer, int tag) override;

  // Throws Error(comm) when NCCL has found a failed peer; polled by the watchdog, never blocks.
  void check_async() const;

 private:
  struct Channels;
  std::unique_ptr<Channels> channels_;
  Group& host_;
};

}  // namespace cambium::comm
