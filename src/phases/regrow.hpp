// phases/regrow.hpp — a store for a changed spec beside the old one: kept buckets are shared, new
// ones drawn, those whose stage changed copied to their new rank. Nothing of the old store is
// touched, so dropping the result is a roll-back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "phases/session.hpp"

namespace cambium::phases {

struct Regrown {
  std::unique_ptr<params::ParamStore> store;
  std::int64_t bytes_new = 0;    // allocated for new entities on this rank
  std::int64_t bytes_moved = 0;  // received from other ranks
};

// Allocates and draws what is new on this rank. session.plans must have `spec` proposed. Local.
[[nodiscard]] Regrown prepare_store(const Session& session, const model::Spec& spec);

// Copies kept entities whose stage changed to their new rank, and packs. Collective over: pipeline.
void move_entities(Session& session, Regrown& regrown);

// Makes it the session's: names follow the new positions, engines are rebuilt at the next use.
// Commits the plans.
void adopt(Session& session, const model::Spec& spec, Regrown regrown);

}  // namespace cambium::phases
