// phases/pretrain.cpp — next-token training on text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "data/text_batches.hpp"
#include "data/token.hpp"
#include "optimizer/learning_rate.hpp"
#include "phases/training.hpp"

namespace cambium::phases {
namespace {

void validate(Session& session, const config::PretrainPhase& phase) {
  if (!phase.validation) {
    return;
  }
  const LossOnText v = loss_on_text(session,
                                    phase.validation->path,
                                    phase.sequence_length,
                                    phase.global_batch_size,
                                    phase.validation->batches);
  if (session.writers) {
    session.writers->metrics.write({{"phase", session.phase().name},
                                    {"step", session.state.step},
                                    {"validation_loss", v.loss},
                                    {"validation_tokens", v.tokens}});
    say(session,
        fmt::format("{}: step {}: validation loss {:.4f} on {} tokens",
                    session.phase().name,
                    session.state.step,
                    v.loss,
                    v.tokens));
  }
}

}  // namespace

PhaseEnd run_pretrain(Session& session) {
  const auto& phase = std::get<config::PretrainPhase>(session.phase().settings);
  State& state = session.state;
  const dim_t micro = state.contract.micro_batch_size;
  const data::BatchShape shape{phase.global_batch_size, micro, state.contract.logical.data};
  const data::TextBatches text(phase, state.contract.seed);
  for (const std::string& line : text.describe()) {
    session.log.info(line);
  }
  state.is_phase_begun = true;  // a restart inside the phase does not start from another one again
  engine::Engine& engine = engine_for(session, phase.sequence_length);
  const Range shards = session.store->partition().data_shards();
  const dim_t per_shard = shape.micro_batches_per_shard();
  const dim_t step_tokens = phase.global_batch_size * phase.sequence_length;
  TokenBuffers buffers(per_shard * shards.size(), micro * phase.sequence_length);
  std::vector<engine::MicroBatch> batches;
  for (dim_t i = 0; i < per_shard * shards.size(); ++i) {
    batches.push_back({.mode = layers::Mode::train,
                       .data_shard = i / per_shard,
                       .ids = buffers.ids_view(i),
                       .targets = buffers.targets_view(i),
                       .scale = 1.0 / static_cast<double>(step_tokens)});
  }
  if (session.phase_step() == 0) {
    validate(session, phase);
  }
  while (session.phase_step() < phase.steps) {
    const dim_t step = state.step + 1;
    for (dim_t i = 0; i < static_cast<dim_t>(batches.size()); ++i) {
      const Range samples = shape.samples(shards.begin + i / per_shard, i % per_shard);
      (void)text.fill(step, samples, buffers.ids(i), buffers.targets(i));
      data::check_ids(buffers.ids(i), micro, state.spec.vocabulary, session.phase().name);
    }
    StepInput input;
    input.batches = batches;
    input.optimizer = &phase.optimizer;
    input.learning_rate =
        optimizer::learning_rate_at(phase.learning_rate, session.phase_step() + 1, phase.steps);
    input.tokens = step_tokens;
    const StepResult result = train_step(session, engine, input);
    record_step(
        session, result, result.sums[0] / static_cast<double>(step_tokens), input, phase.steps);
    const bool is_last = session.phase_step() == phase.steps;
    const dim_t every = phase.validation ? phase.validation->every_steps : 0;
    if (is_last || (every > 0 && state.step % every == 0)) {
      validate(session, phase);
    }
    if (finish_step(session, result, is_last)) {
      return PhaseEnd::stopped;
    }
  }
  return PhaseEnd::done;
}

}  // namespace cambium::phases
