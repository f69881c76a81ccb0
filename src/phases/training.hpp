// phases/training.hpp — what every training phase does with a step: run, reduce, agree, update,
// record, save, stop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "phases/phase.hpp"
#include "phases/session.hpp"

namespace cambium::phases {

struct StepInput {
  std::span<const engine::MicroBatch> batches;
  engine::ClassifyTask* classify = nullptr;
  const config::OptimizerConfig* optimizer = nullptr;
  double learning_rate = 0;
  dim_t tokens = 0;  // of the whole step, all ranks
  // Called on the last stage after the pass: appends this rank's values per local data shard
  // (shard-major); they are summed by the tree over data shards and known to all ranks in
  // StepResult::sums.
  std::function<std::vector<double>(const std::vector<double>& losses)> leaves;
  dim_t width = 1;  // values per shard that `leaves` gives
};

struct StepResult {
  std::vector<double> sums;  // by the tree over data shards
  double grad_norm = 0;
  bool is_skipped = false;  // not finite: nothing was updated
  int signal = 0;           // a signal that some rank got
  bool is_checkpoint_due = false;
  bool is_saving = false;  // a rank is busy with the checkpoint on its way
  double seconds = 0;
  std::span<const double> rank_seconds;  // own work by rank, in the last step of a window
};

// One update; state.step is the number of it. Collective over: world. Throws Error(numbers) after
// too many skips.
StepResult train_step(Session& session, engine::Engine& engine, const StepInput& input);

// Writes the metrics row of a step and moves the progress line.
void record_step(Session& session,
                 const StepResult& result,
                 double loss,
                 const StepInput& input,
                 dim_t phase_steps,
                 const metrics::Fields& more = {});

// A signal that some rank got by now; 0: none. Collective over: world.
[[nodiscard]] int agreed_signal(Session& session);

// Notes the signal and writes the checkpoint to go on from. Collective over: world.
void save_and_stop(Session& session, int signal);

// After a recorded step: periodic checkpoints and the end on a signal. True: the run must stop now
// (checkpoint written).
[[nodiscard]] bool finish_step(Session& session, const StepResult& result, bool is_last);

// Whole-batch memory of token ids for the micro-batches of this rank.
class TokenBuffers {
 public:
  // `count` micro-batches of `tokens` ids each.
  TokenBuffers(dim_t count, dim_t tokens);

  [[nodiscard]] std::span<std::int32_t> ids(dim_t i);
  [[nodiscard]] std::span<std::int32_t> targets(dim_t i);
  [[nodiscard]] device::View ids_view(dim_t i);
  [[nodiscard]] device::View targets_view(dim_t i);

 private:
  dim_t tokens_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> targets_;
};

// Mean loss per valid token of a text file, by forward-only micro-batches in file order. Collective
// over: world.
struct LossOnText {
  double loss = 0;
  dim_t tokens = 0;
  bool is_stopped = false;
};

// `is_over`, asked before each batch with one answer on all ranks, ends it early.
[[nodiscard]] LossOnText loss_on_text(Session& session,
                                      const std::filesystem::path& path,
                                      dim_t sequence_length,
                                      dim_t global_batch_size,
                                      dim_t batches,
                                      const std::function<bool()>& is_over = {});

}  // namespace cambium::phases
