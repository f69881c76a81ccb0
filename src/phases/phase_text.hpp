// phases/phase_text.hpp — what a campaign that has begun may not change over a restart, as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "comm/group.hpp"
#include "config/campaign.hpp"

namespace cambium::phases {

// What stands for a data file in a phase's text: the hash of its bytes, which decide what a step
// sees; where they lie does not.
using DataNames = std::map<std::filesystem::path, std::string>;

// Of all data files of these phases, each read once, by rank 0. Collective over: group. Throws the
// same AgreedError(storage) on every rank.
[[nodiscard]] DataNames name_data(comm::Group& group, std::span<const config::Phase> phases);

// The resolved text of phase `index`, without what is free; `names` has its data files.
[[nodiscard]] std::string phase_text(const config::Campaign& campaign,
                                     std::size_t index,
                                     const DataNames& names);

// The resolved text of the model section.
[[nodiscard]] std::string model_text(const config::Campaign& campaign);

}  // namespace cambium::phases
