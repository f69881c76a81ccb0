// checkpoint/write_steps.hpp — the steps of writing a checkpoint, in their order (internal): those
// that talk to other ranks apart from those that work on the disk, so that the latter may run in a
// thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/shard_file.hpp"
#include "checkpoint/write.hpp"
#include "comm/group.hpp"

namespace cambium::checkpoint {

// What this rank writes, and the whole checkpoint's layout; the same manifest on every rank. Points
// into the request.
struct Plan {
  Manifest manifest;
  std::vector<Placed> mine;
  std::vector<int>
      writers;  // rank of each shard file, ascending; manifest.files has the same order
};

// Collective over: world.
[[nodiscard]] Plan make_plan(comm::Group& world, const WriteRequest& request);

// Local: the shard of `rank`, fsynced. Returns its size and checksum, or nothing without slices.
[[nodiscard]] std::vector<std::int64_t> write_own_shard(const WriteRequest& request,
                                                        const Plan& plan,
                                                        int rank);

// All learn size and checksum of each shard. Collective over: world.
void take_records(comm::Group& world, const std::vector<std::int64_t>& mine, Plan& plan);

// Local, on rank 0: checks the shards, writes model.h5 and the manifest, renames.
void complete(const WriteRequest& request, Manifest& manifest);

// Local, on rank 0. Returns what pruning left alone or could not remove.
[[nodiscard]] std::vector<std::string> move_latest_and_prune(const WriteRequest& request);

// Local, on rank 0, after a failure. A rest that cannot be removed keeps its name, which says what
// it is.
void remove_partial(const WriteRequest& request);

// Without warnings.
[[nodiscard]] WriteResult result_of(const WriteRequest& request, const Plan& plan);

}  // namespace cambium::checkpoint
