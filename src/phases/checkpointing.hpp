// phases/checkpointing.hpp — between a session and a checkpoint: which rank writes which rows, and what is read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "phases/session.hpp"

namespace cambium::phases {

// Writes the session's state at its present step. Rows are divided over data ranks as the optimizer divides them; a
// replicated parameter is written by the first tensor rank, a mirror by nobody. `phase_end`: the checkpoint that this phase
// leaves, kept as long as a later phase may start from it.
// Collective over: world. Throws the agreed error of checkpoint::write_checkpoint.
enum class CheckpointWhy { interval, phase_end, growth, stop };
void save_checkpoint(Session& session, CheckpointWhy why);

// Fills parameters, slots and step counts of session.store from a checkpoint of the same spec, on any layout.
// Collective over: world.
void load_parameters(Session& session, const checkpoint::Checkpoint& from);

// The spec of a model taken over from another run: what was opened there stays open here, births are past.
[[nodiscard]] model::Spec taken_over(const checkpoint::Checkpoint& from);

// Moments and step counts become those of a fresh start.
void forget_slots(Session& session);

// state.spec and parameters become those of another phase's end; step, phase and tokens go on.
// Collective over: world. Throws Error(usage) when that phase left no checkpoint.
void start_from_phase(Session& session, const std::string& phase, bool is_sharded);

}  // namespace cambium::phases
