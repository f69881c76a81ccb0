// phases/phase.hpp — one kind of phase: one file and one line in registry.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "phases/session.hpp"

namespace cambium::phases {

enum class PhaseEnd { done, stopped };

// Runs (or goes on with) the phase session.state.phase. `stopped`: a signal asked for it and a
// checkpoint was written.
using RunPhase = PhaseEnd (*)(Session&);

// Throws Error(bug) for a kind without an entry.
[[nodiscard]] RunPhase find_phase(std::string_view kind);

PhaseEnd run_pretrain(Session& session);
PhaseEnd run_grow(Session& session);
PhaseEnd run_mtssl(Session& session);
PhaseEnd run_evaluate(Session& session);

// Layers per stage when every old layer stays where it is and a new one joins the layer before it.
[[nodiscard]] std::vector<dim_t> keep_in_place(const Session& session, const model::Spec& spec);

// Whether the optimizer of the phase shards its slots; grow and evaluate phases take their
// predecessor's.
[[nodiscard]] bool is_sharded(const config::Phase& phase, bool otherwise);

}  // namespace cambium::phases
