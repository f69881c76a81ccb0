// data/check_data.hpp — finds what is wrong with a campaign's data files before anything is
// written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/campaign.hpp"

namespace cambium::data {

// Opens and checks every data file of every phase as the phase will. Returns lines for the log:
// what was found, warnings. Throws: Error(bad_input) with all problems, one a line, each after the
// place of its key.
std::vector<std::string> check_data(const config::Campaign& campaign);

}  // namespace cambium::data
