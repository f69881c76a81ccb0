// phases/evaluate.cpp — loss on held-out text, or accuracy on held-out labelled text. Updates
// nothing.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "phases/classification.hpp"
#include "phases/training.hpp"

namespace cambium::phases {

PhaseEnd run_evaluate(Session& session) {
  const auto& phase = std::get<config::EvaluatePhase>(session.phase().settings);
  const State& state = session.state;
  const dim_t batch = phase.global_batch_size > 0
                          ? phase.global_batch_size
                          : state.contract.micro_batch_size * state.contract.logical.data;
  // Nothing is lost by a stop: the phase is done again.
  int signal = 0;
  const auto is_over = [&] {
    signal = agreed_signal(session);
    return signal != 0;
  };
  metrics::Fields row{
      {"phase", session.phase().name}, {"kind", session.phase().kind()}, {"step", state.step}};
  if (phase.task == config::EvaluateTask::loss) {
    const LossOnText v =
        loss_on_text(session, phase.data, phase.sequence_length, batch, phase.batches, is_over);
    if (v.is_stopped) {
      save_and_stop(session, signal);
      return PhaseEnd::stopped;
    }
    row.add("validation_loss", v.loss).add("validation_tokens", v.tokens);
    say(session,
        fmt::format("{}: loss {:.4f} on {} tokens", session.phase().name, v.loss, v.tokens));
  } else {
    const Accuracy a = accuracy_on_texts(
        session, phase.data, phase.sequence_length, batch, phase.batches, is_over);
    if (a.is_stopped) {
      save_and_stop(session, signal);
      return PhaseEnd::stopped;
    }
    row.add("accuracy", a.share()).add("correct", a.correct).add("examples", a.samples);
    say(session,
        fmt::format("{}: accuracy {:.2f} % ({} of {})",
                    session.phase().name,
                    100 * a.share(),
                    a.correct,
                    a.samples));
  }
  if (session.writers) {
    session.writers->metrics.write(row);
  }
  return PhaseEnd::done;
}

}  // namespace cambium::phases
