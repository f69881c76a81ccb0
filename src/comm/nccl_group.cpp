// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_group.hpp"

#include <exception>
#include <nccl.h>  // brings the CUDA runtime's types
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace cambium::comm {

namespace {

void check_cuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess) {
    throw Error(Code::device, std::string(what) + ": " + cudaGetErrorString(result));
  }
}

// A communicator with a stream of its own, so that a message that waits for its peer holds up
// nothing else. Uses cudaStreamPerThread as the stream of the kernels.
class Channel {
 public:
  Channel(const ncclUniqueId& id, int ranks, int rank, std::string name) : name_(std::move(name)) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    if (const ncclResult_t result = ncclCommInitRank(&comm_, ranks, id, rank);
        result != ncclSuccess) {
      cudaStreamDestroy(stream_);  // the destructor does not run
      throw Error(Code::comm,
                  "ncclCommInitRank in group " + name_ + ": " + ncclGetErrorString(result));
    }
  }

  // Destroying waits for the peers; while an error unwinds they may be gone.
  ~Channel() {
    if (std::uncaught_exceptions() > entered_with_) {
      ncclCommAbort(comm_);
    } else {
      ncclCommDestroy(comm_);
    }
    cudaStreamDestroy(stream_);
  }

  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] ncclComm_t comm() const {
    return comm_;
  }

  [[nodiscard]] cudaStream_t stream() const {
    return stream_;
  }

  void check(ncclResult_t result, const char* what) const {
    if (result != ncclSuccess) {
      throw Error(Code::comm,
                  std::string(what) + " in group " + name_ + ": " + ncclGetErrorString(result) +
                      " (" + ncclGetLastError(comm_) + ")");
    }
  }

  void check_async() const {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    check(state == ncclInProgress ? ncclSuccess : state, "an earlier call");
  }

 private:
  std::string name_;
  int entered_with_ = std::uncaught_exceptions();
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

class Event {
 public:
  explicit Event(cudaStream_t recorded_on) {
    check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaEventRecord(event_, recorded_on), "cudaEventRecord");
  }

  ~Event() {
    cudaEventDestroy(event_);  // the driver frees it when it has completed
  }

  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  [[nodiscard]] bool is_over() const {
    const cudaError_t state = cudaEventQuery(event_);
    check_cuda(state == cudaErrorNotReady ? cudaSuccess : state, "cudaEventQuery");
    return state == cudaSuccess;
  }

  void hold_back(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclRequest final : public Request::State {
 public:
  explicit NcclRequest(cudaStream_t stream) : done_(stream) {}

  void wait() override {
    done_.hold_back(cudaStreamPerThread);
  }

  bool test() override {
    return done_.is_over();
  }

 private:
  Event done_;
};

ncclRedOp_t native(Reduce op) {
  switch (op) {
    case Reduce::sum:
      return ncclSum;
    case Reduce::min:
      return ncclMin;
    case Reduce::max:
      return ncclMax;
  }
  throw Error(Code::bug, "nccl group: unknown reduction");
}

std::byte* at(void* base, std::size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}

const std::byte* at(const void* base, std::size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

}  // namespace

// One channel for the collectives; one for each direction between neighbours of the ring, because
// messages of one communicator run in the order of their calls and a send that waits would hold up
// the receive that it waits for.
struct NcclGroup::Channels {
  std::unique_ptr<Channel> all;
  std::unique_ptr<Channel> to_next, from_next, to_previous, from_previous;
};

NcclGroup::NcclGroup(Group& host) : channels_(std::make_unique<Channels>()), host_(host) {
  const int n = host.size();
  const int me = host.rank();
  // ids[0] for the collectives, ids[1 + 2e] and ids[2 + 2e] for edge e between ranks e and e + 1:
  // up and down.
  const int edges = n == 1 ? 0 : n == 2 ? 1 : n;
  std::vector<ncclUniqueId> ids(static_cast<std::size_t>(1 + 2 * edges));
  std::int64_t failed = 0;
  if (me == 0) {
    for (ncclUniqueId& id : ids) {
      failed = ncclGetUniqueId(&id) == ncclSuccess ? failed : 1;
    }
  }
  // Every rank learns of it, so that none waits for ids that never come.
  host.all_reduce(std::span(&failed, 1), Reduce::max);
  if (failed != 0) {
    throw Error(Code::comm, "ncclGetUniqueId for group " + host.name() + ": failed on rank 0");
  }
  host.broadcast(ids.data(), ids.size() * sizeof(ncclUniqueId), 0);

  channels_->all = std::make_unique<Channel>(ids[0], n, me, host.name());
  // All ranks walk the edges in one order: a rank waits for a neighbour only at an earlier edge
  // than its own next.
  for (int e = 0; e < edges; ++e) {
    const int low = e;
    const int high = (e + 1) % n;
    const auto id = static_cast<std::size_t>(1 + 2 * e);
    if (me == low) {
      channels_->to_next = std::make_unique<Channel>(ids[id], 2, 0, host.name());
      channels_->from_next = std::make_unique<Channel>(ids[id + 1], 2, 0, host.name());
    } else if (me == high) {
      channels_->from_previous = std::make_unique<Channel>(ids[id], 2, 1, host.name());
      channels_->to_previous = std::make_unique<Channel>(ids[id + 1], 2, 1, host.name());
    }
  }
}

NcclGroup::~NcclGroup() = default;

int NcclGroup::rank() const {
  return host_.rank();
}

int NcclGroup::size() const {
  return host_.size();
}

const std::string& NcclGroup::name() const {
  return host_.name();
}

void NcclGroup::barrier() {
  check_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
  host_.barrier();
}

void NcclGroup::broadcast(void* data, std::size_t bytes, int root) {
  const Channel& c = *channels_->all;
  c.check(ncclBroadcast(data, data, bytes, ncclUint8, root, c.comm(), cudaStreamPerThread),
          "ncclBroadcast");
  count_sent(rank() == root ? bytes * static_cast<std::size_t>(size() - 1) : 0);
}

void NcclGroup::all_gather(const void* sent,
                           std::span<const std::size_t> bytes_by_rank,
                           void* received) {
  const Channel& c = *channels_->all;
  c.check(ncclGroupStart(), "ncclGroupStart");
  std::size_t offset = 0;
  for (int r = 0; r < size(); ++r) {
    const std::size_t bytes = bytes_by_rank[static_cast<std::size_t>(r)];
    void* to = at(received, offset);
    if (bytes >
        0) {  // parts are uneven, so one broadcast each; NCCL runs the group as one operation
      const void* from = r == rank() ? sent : to;
      c.check(ncclBroadcast(from, to, bytes, ncclUint8, r, c.comm(), cudaStreamPerThread),
              "ncclBroadcast");
    }
    offset += bytes;
  }
  c.check(ncclGroupEnd(), "all_gather");
  count_sent(bytes_by_rank[static_cast<std::size_t>(rank())] *
             static_cast<std::size_t>(size() - 1));
}

void NcclGroup::all_to_all(const void* sent,
                           std::span<const std::size_t> sent_offsets,
                           std::span<const std::size_t> sent_bytes,
                           void* received,
                           std::span<const std::size_t> received_bytes) {
  const Channel& c = *channels_->all;
  c.check(ncclGroupStart(), "ncclGroupStart");
  std::size_t to = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    if (sent_bytes[p] > 0) {
      const void* from = at(sent, sent_offsets[p]);
      c.check(ncclSend(from, sent_bytes[p], ncclUint8, peer, c.comm(), cudaStreamPerThread),
              "ncclSend");
      count_sent(peer == rank() ? 0 : sent_bytes[p]);
    }
    if (received_bytes[p] > 0) {
      c.check(
          ncclRecv(
              at(received, to), received_bytes[p], ncclUint8, peer, c.comm(), cudaStreamPerThread),
          "ncclRecv");
    }
    to += received_bytes[p];
  }
  c.check(ncclGroupEnd(), "all_to_all");
}

namespace {

template <typename T>
void reduce_in_place(const Channel& c, std::span<T> values, ncclDataType_t type, ncclRedOp_t op) {
  c.check(ncclAllReduce(
              values.data(), values.data(), values.size(), type, op, c.comm(), cudaStreamPerThread),
          "ncclAllReduce");
}

}  // namespace

void NcclGroup::all_reduce(std::span<std::int64_t> values, Reduce op) {
  reduce_in_place(*channels_->all, values, ncclInt64, native(op));
  count_sent(size() == 1 ? 0 : values.size_bytes());
}

void NcclGroup::all_reduce(std::span<double> values, Reduce op) {
  reduce_in_place(*channels_->all, values, ncclFloat64, native(op));
  count_sent(size() == 1 ? 0 : values.size_bytes());
}

void NcclGroup::all_reduce(std::span<float> values, Reduce op) {
  reduce_in_place(*channels_->all, values, ncclFloat32, native(op));
  count_sent(size() == 1 ? 0 : values.size_bytes());
}

void NcclGroup::all_reduce_or(std::span<std::uint32_t> words) {
  reduce_in_place(*channels_->all, words, ncclUint32, ncclSum);
  count_sent(size() == 1 ? 0 : words.size_bytes());
}

namespace {

// Of two ranks the other one is next and previous; `first` of the pair of channels is then taken by
// both sides.
Error not_a_neighbour(const Group& group, int peer) {
  return Error(Code::bug,
               "nccl group " + group.name() + ": rank " + std::to_string(group.rank()) +
                   " and rank " + std::to_string(peer) + " are no neighbours");
}

}  // namespace

Request NcclGroup::send(const void* data, std::size_t bytes, int peer, int /*tag*/) {
  const bool is_next = channels_->to_next && peer == (rank() + 1) % size();
  const bool is_previous = channels_->to_previous && peer == (rank() + size() - 1) % size();
  if (!is_next && !is_previous) {
    throw not_a_neighbour(*this, peer);
  }
  const Channel& c = is_next ? *channels_->to_next : *channels_->to_previous;
  Event(cudaStreamPerThread).hold_back(c.stream());  // the kernels that make the data
  c.check(ncclSend(data, bytes, ncclUint8, is_next ? 1 : 0, c.comm(), c.stream()), "ncclSend");
  count_sent(bytes);
  return Request(std::make_unique<NcclRequest>(c.stream()));
}

Request NcclGroup::receive(void* data, std::size_t bytes, int peer, int /*tag*/) {
  const bool is_next = channels_->from_next && peer == (rank() + 1) % size();
  const bool is_previous = channels_->from_previous && peer == (rank() + size() - 1) % size();
  if (!is_next && !is_previous) {
    throw not_a_neighbour(*this, peer);
  }
  const Channel& c = is_next ? *channels_->from_next : *channels_->from_previous;
  Event(cudaStreamPerThread).hold_back(c.stream());  // the kernels that still read the memory
  c.check(ncclRecv(data, bytes, ncclUint8, is_next ? 1 : 0, c.comm(), c.stream()), "ncclRecv");
  return Request(std::make_unique<NcclRequest>(c.stream()));
}

void NcclGroup::check_async() const {
  for (const auto* c : {&channels_->all,
                        &channels_->to_next,
                        &channels_->from_next,
                        &channels_->to_previous,
                        &channels_->from_previous}) {
    if (*c) {
      (*c)->check_async();
    }
  }
}

}  // namespace cambium::comm
