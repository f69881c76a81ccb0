// phases/campaign.hpp — a campaign from its file to its end: check, lock, resume, run the phases.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "metrics/progress.hpp"
#include "phases/fault_injection.hpp"

namespace cambium::phases {

struct CampaignInput {
  std::filesystem::path config;
  std::vector<std::string> overrides;  // a.b.c=value
  FaultInjection* faults = nullptr;
  metrics::ProgressMode progress = metrics::ProgressMode::automatic;
  // Told as soon as it is known: where a lone failure leaves its FAULT file.
  std::filesystem::path* attempt_folder = nullptr;
};

enum class CampaignEnd { done, stopped };

// Nothing is written before every check has passed. Collective over: world.
// Throws AgreedError on every rank for what all ranks agree on; any other exception is one rank's
// own.
CampaignEnd run_campaign(comm::World& world, const CampaignInput& input);

// What `validate` prints: the resolved meshes, phases, parameters, and what each growth phase will
// change. Local.
[[nodiscard]] std::string describe_campaign(const CampaignInput& input, int ranks);

}  // namespace cambium::phases
