// app/checkpoint_of.hpp — what the commands on checkpoints share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "app/commands.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "comm/collectively.hpp"

namespace cambium::app {

// A checkpoint, or a run directory's latest.
[[nodiscard]] inline checkpoint::Checkpoint checkpoint_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path) / "checkpoints";
  if (std::filesystem::is_directory(folder)) {
    const checkpoint::Latest latest = checkpoint::find_latest(folder);
    if (latest.checkpoint) {
      return *latest.checkpoint;
    }
    throw Error(Code::bad_input, folder.string() + ": no checkpoint");
  }
  return checkpoint::open_checkpoint(path);
}

// What rank 0 does alone, all ranks end with together.
template <typename F>
void on_rank_0(Context& context, const char* what, F&& work) {
  comm::collectively(context.world->group(), what, [&] {
    if (context.world->rank() == 0) {
      work();
    }
  });
}

}  // namespace cambium::app
