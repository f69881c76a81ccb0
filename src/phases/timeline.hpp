// phases/timeline.hpp — the traced step and the per-rank table of a run's report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phases/session.hpp"

namespace cambium::phases {

// RUN/timeline.json from every rank's actions. Collective over: world.
void write_timeline(Session& session, const std::vector<engine::TracedAction>& actions);

// RUN/ranks.json: what each rank held, computed and sent so far in this attempt. Collective over:
// world.
void write_ranks(Session& session);

// Every rank's text, on rank 0 (empty elsewhere). Collective over: group.
[[nodiscard]] std::vector<std::string> gather_texts(comm::Group& group, const std::string& mine);

}  // namespace cambium::phases
