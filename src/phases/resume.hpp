// phases/resume.hpp — where a run starts: afresh, or from its last complete checkpoint on whatever
// layout it now has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "phases/campaign.hpp"
#include "phases/session.hpp"

namespace cambium::phases {

struct Start {
  config::ParallelConfig parallel;  // resolved for the ranks there are
  State state;
  std::optional<checkpoint::Checkpoint> from;
  std::optional<checkpoint::Checkpoint> model_from;  // model.from: parameters of another run
  std::string from_layout;
  nlohmann::json from_keys =
      nlohmann::json::object();  // free keys as the checkpoint's run used them
  dim_t lines_cut = 0;
  std::vector<std::string> warnings;
};

// Reads, checks, refuses; writes nothing. Collective over: world. Throws the same AgreedError on
// every rank.
[[nodiscard]] Start plan_start(comm::World& world, const config::Campaign& campaign);

// A model that comes from a checkpoint has as many learned positions as it has. Throws Error(usage)
// for a phase with longer samples.
void check_positions(const config::Campaign& campaign, const model::Spec& spec);

// Run directory, lock, attempt, writers, log, watchdog. Cuts metrics.jsonl behind the checkpoint.
// Collective over: world.
void open_run(Session& session, Start& start, const CampaignInput& input);

// The same parameters and slots with the optimizer sharded or not. Collective over: data.
void reshape_store(Session& session, bool is_sharded);

}  // namespace cambium::phases
