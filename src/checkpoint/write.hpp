// checkpoint/write.hpp — writing a checkpoint: whole or not at all. Schema:
// src/checkpoint/README.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder.hpp"

namespace cambium::checkpoint {

struct WriteRequest {
  std::filesystem::path folder;  // RUN/checkpoints; created when absent
  dim_t step = 0;
  std::string run;  // identity of the run; pruning touches only checkpoints that carry the same
  std::vector<Array> arrays;  // all arrays, the same list on every rank
  std::vector<Source>
      slices;  // what this rank writes; all ranks' slices tile every array exactly once
  nlohmann::json state =
      nlohmann::json::object();  // rank 0's is stored; state["free"] is not compared
  Retention retention;
  std::size_t transfer_limit = std::size_t{1} << 30;  // bytes per write call
};

struct WriteResult {
  std::filesystem::path path;         // folder/step-%08d
  std::int64_t bytes = 0;             // of all files
  std::vector<std::string> warnings;  // on rank 0 only: what pruning left alone or could not remove
};

// Writes folder/step-N.partial (one HDF5 file per rank that has slices, model.h5, then
// manifest.json), syncs it, renames it to folder/step-N, then moves `latest`, then prunes. Memory
// of the slices must not change until it returns. Collective over: world (three small all-gathers
// and five agreements); no array travels. Throws the same AgreedError on every rank: bug (slices do
// not tile, arrays differ between ranks), storage (path and errno's text). After a failure the
// partial folder is gone and `latest` stands where it stood. HDF5 calls are
// serialised by a lock of the process. Beside training: background.hpp.
WriteResult write_checkpoint(comm::Group& world, const WriteRequest& request);

}  // namespace cambium::checkpoint
