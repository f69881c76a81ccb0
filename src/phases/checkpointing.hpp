// phases/checkpointing.hpp — between a session and a checkpoint: which rank writes which rows, and
// what is read back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "phases/session.hpp"

namespace cambium::phases {

// Writes the session's state at its present step. Rows are divided over data ranks as the optimizer
// divides them; a replicated parameter is written by the first tensor rank, a mirror by nobody.
// Collective over: world. Throws the agreed error of checkpoint::write_checkpoint. Returns its
// path.
enum class CheckpointWhy { interval, phase_end, growth, stop };
std::filesystem::path save_checkpoint(Session& session, CheckpointWhy why);

// The same for an interval, beside training (checkpoint.asynchronous): returns when this rank's
// state is copied. Waits for the one before it, so at most one is on its way. Collective over:
// world.
void begin_checkpoint(Session& session);

// Between two steps: takes the checkpoint on its way one act further when no rank is busy with it
// (`is_busy`: a rank is, and all know it). Throws the agreed error of its threads. Collective over:
// world.
void advance_checkpoint(Session& session, bool is_busy);

// Waits until nothing is on its way. Collective over: world.
void finish_checkpoint(Session& session);

// Whether the end of phase `index` must outlive pruning: a later phase starts from it, or the next
// one grows it (the checkpoint before a growth step has the step number of the one behind it).
[[nodiscard]] bool is_phase_end_kept(const config::Campaign& campaign, std::size_t index);

// `from` is the end of phase `index`: gives it the lasting name checkpoints/phase-NAME, where it is
// kept. Collective over: world.
void keep_phase_end(Session& session, std::size_t index, const std::filesystem::path& from);

// Fills parameters, slots and step counts of session.store from a checkpoint of the same spec, on
// any layout. Collective over: world.
void load_parameters(Session& session, const checkpoint::Checkpoint& from);

// The checkpoint that `model.from` names. Throws Error(bad_input), and Error(usage) with the
// command to call for a folder of Hugging Face.
[[nodiscard]] checkpoint::Checkpoint open_model(const std::filesystem::path& from);

// The spec of a model taken over from another run: what was opened there stays open here, births
// are past.
[[nodiscard]] model::Spec taken_over(const checkpoint::Checkpoint& from);

// Moments and step counts become those of a fresh start.
void forget_slots(Session& session);

// state.spec and parameters become those of another phase's end; step, phase and tokens go on.
// Collective over: world. Throws Error(usage) when that phase left no checkpoint.
void start_from_phase(Session& session, const std::string& phase, bool is_sharded);

}  // namespace cambium::phases
