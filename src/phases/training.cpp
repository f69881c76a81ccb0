// SPDX-License-Identifier: Apache-2.0
#include "phases/training.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "comm/collectively.hpp"
#include "comm/wait_clock.hpp"
#include "data/text_batches.hpp"
#include "data/token.hpp"
#include "phases/checkpointing.hpp"
#include "phases/timeline.hpp"

namespace cambium::phases {
namespace {

// Bits of the status word that rides on the step's last reduction.
constexpr std::int64_t kFlagTerminate = 1;
constexpr std::int64_t kFlagUser1 = 2;
constexpr std::int64_t kFlagUser2 = 4;
constexpr std::int64_t kFlagCheckpoint = 8;
constexpr std::int64_t kFlagSaving = 16;

std::int64_t flag_of_signal(int signal) {
  switch (signal) {
    case SIGTERM:
      return kFlagTerminate;
    case SIGUSR1:
      return kFlagUser1;
    case SIGUSR2:
      return kFlagUser2;
    default:
      return 0;
  }
}

int signal_of_flags(std::int64_t flags) {
  if ((flags & kFlagTerminate) != 0) {
    return SIGTERM;
  }
  if ((flags & kFlagUser1) != 0) {
    return SIGUSR1;
  }
  return (flags & kFlagUser2) != 0 ? SIGUSR2 : 0;
}

template <typename T>
void scale(device::View v, double factor) {
  for (dim_t i = 0; i < v.size(); ++i) {
    v.as<T>()[i] *= static_cast<T>(factor);
  }
}

// What a broken device might do to the gradients that this rank owns.
void disturb_gradients(Session& session, engine::Engine& engine, double factor) {
  for (const auto& b : session.store->buckets()) {
    const device::View g = engine.sync().gradient(*b).slice_cols(b->owned());
    g.dtype == device::DType::f64 ? scale<double>(g, factor) : scale<float>(g, factor);
  }
}

// A skipped step leaves every bit as it was; too many in a row end the run with its state kept.
void note_skip(Session& session, double norm) {
  State& state = session.state;
  const dim_t limit = session.campaign.run.on_nonfinite.skip_limit;
  ++state.skipped_in_a_row;
  note_event(session,
             "skipped_step",
             {{"step", state.step}, {"grad_norm", norm}, {"in_a_row", state.skipped_in_a_row}});
  say(session,
      fmt::format("step {}: loss or gradient norm is not finite; nothing was updated", state.step));
  if (state.skipped_in_a_row > limit) {
    throw comm::AgreedError(
        Code::numbers,
        fmt::format(
            "step {}: loss or gradient norm was not finite in {} steps in a row, expected at "
            "most {} (run.on_nonfinite.skip_limit); the last checkpoint is kept; lower the "
            "learning rate or look at the data of this step",
            state.step,
            state.skipped_in_a_row,
            limit),
        0);
  }
}

// Times by rank at the end of a window, and one warning for a rank that stays slow.
std::span<const double> note_work(Session& session, double seconds) {
  const std::span<const double> by_rank = session.stragglers.note(session.world.group(), seconds);
  if (by_rank.empty()) {
    return by_rank;
  }
  const auto slow = session.stragglers.find(session.store->partition().physical);
  if (!slow) {
    return by_rank;
  }
  if (const auto line = session.stragglers.name(session.world, *slow)) {
    note_event(session,
               "slow_rank",
               {{"step", session.state.step},
                {"rank", slow->rank},
                {"seconds", slow->seconds},
                {"usual", slow->usual}});
    warn(session, *line);
  }
  return by_rank;
}

}  // namespace

StepResult train_step(Session& session, engine::Engine& engine, const StepInput& input) {
  const metrics::Stopwatch watch;
  const double waited = comm::WaitClock::seconds();
  State& state = session.state;
  ++state.step;
  session.faults.set_step(state.step);

  engine::PassHooks hooks;
  hooks.classify = input.classify;
  hooks.beat = [&](const char* action) {
    if (session.watchdog) {
      session.watchdog->beat(state.step, action);
    }
    session.faults.pass("action");
  };
  std::vector<engine::TracedAction> trace;
  const bool is_traced = state.step == session.campaign.metrics.timeline_step;
  hooks.trace = is_traced ? &trace : nullptr;
  session.faults.pass("step");
  const std::vector<double> losses = engine.run(input.batches, hooks);

  optimizer::StepTail tail;
  tail.last_stage.assign(static_cast<std::size_t>(input.width), 0.0);
  const std::vector<double> leaves = input.leaves ? input.leaves(losses) : losses;
  if (engine.is_last_stage()) {
    const comm::ShardSum sum(
        state.contract.logical.data, session.groups.data->size(), session.groups.data->rank());
    tail.last_stage = comm::tree_sum_scalars(*session.groups.data, sum, leaves, input.width);
  }
  hooks.beat("reduce");
  engine.sync().reduce();
  if (const std::optional<double> factor = session.faults.pass("gradient")) {
    disturb_gradients(session, engine, *factor);
  }
  const auto& every_minutes = session.campaign.checkpoint.every_minutes;
  const bool is_time = every_minutes && session.is_writer() &&
                       session.since_checkpoint.seconds() > *every_minutes * 60;
  const bool is_saving = session.pending && session.pending->write.is_busy();
  tail.flags = flag_of_signal(session.signals.pending()) | (is_time ? kFlagCheckpoint : 0) |
               (is_saving ? kFlagSaving : 0);
  engine.optimizer().reduce_norms(tail);

  StepResult result;
  result.sums = tail.last_stage;
  result.grad_norm = tail.norm;
  result.signal = signal_of_flags(tail.flags);
  result.is_checkpoint_due = (tail.flags & kFlagCheckpoint) != 0;
  result.is_saving = (tail.flags & kFlagSaving) != 0;
  result.is_skipped = !tail.is_finite();
  if (result.is_skipped) {
    note_skip(session, tail.norm);
  } else {
    state.skipped_in_a_row = 0;
    hooks.beat("update");
    engine.optimizer().update(*input.optimizer, input.learning_rate, tail);
  }
  state.tokens += input.tokens;
  if (is_traced) {
    write_timeline(session, trace);
  }
  result.seconds = watch.seconds();
  result.rank_seconds = note_work(session, result.seconds - (comm::WaitClock::seconds() - waited));
  return result;
}

void record_step(Session& session,
                 const StepResult& result,
                 double loss,
                 const StepInput& input,
                 dim_t phase_steps,
                 const metrics::Fields& more) {
  if (!session.writers) {
    return;
  }
  const double speed = static_cast<double>(input.tokens) / std::max(result.seconds, 1e-9);
  metrics::Fields row{{"phase", session.phase().name},
                      {"kind", session.phase().kind()},
                      {"step", session.state.step},
                      {"loss", loss},
                      {"grad_norm", result.grad_norm},
                      {"learning_rate", input.learning_rate},
                      {"tokens", input.tokens},
                      {"tokens_per_second", speed},
                      {"seconds", result.seconds}};
  if (result.is_skipped) {
    row.add("is_skipped", true);
  }
  if (!result.rank_seconds.empty()) {
    std::string list;
    for (const double s : result.rank_seconds) {
      list += list.empty() ? "" : ",";
      list += metrics::to_json(s);
    }
    row.add("rank_seconds", metrics::RawJson{"[" + list + "]"});
  }
  row.add_all(more);
  session.writers->metrics.write(row);
  session.writers->progress.update({.phase = session.phase().name,
                                    .step = session.state.step,
                                    .phase_step = session.phase_step(),
                                    .phase_total = phase_steps,
                                    .loss = loss,
                                    .tokens_per_second = speed,
                                    .extra = {}});
}

int agreed_signal(Session& session) {
  const std::int64_t mine = flag_of_signal(session.signals.pending());
  std::array flags{mine & kFlagTerminate, mine & kFlagUser1, mine & kFlagUser2};
  session.world.group().all_reduce(std::span<std::int64_t>(flags), comm::Reduce::max);
  return signal_of_flags(flags[0] | flags[1] | flags[2]);
}

void save_and_stop(Session& session, int signal) {
  note_event(
      session, "signal", {{"step", session.state.step}, {"signal", comm::name_of_signal(signal)}});
  (void)save_checkpoint(session, CheckpointWhy::stop);
  say(session,
      fmt::format("{} after step {}: checkpoint written, stopping",
                  comm::name_of_signal(signal),
                  session.state.step));
}

bool finish_step(Session& session, const StepResult& result, bool is_last) {
  const dim_t every = session.campaign.checkpoint.every_steps;
  advance_checkpoint(session, result.is_saving);
  if (result.signal != 0 && !is_last) {
    save_and_stop(session, result.signal);
    return true;
  }
  if (!is_last && (result.is_checkpoint_due || (every > 0 && session.state.step % every == 0))) {
    if (result.is_checkpoint_due &&
        session.writers) {  // decided by a clock: a replay must follow it
      session.writers->journal.write(session.state.step, "checkpoint", {{"why", "every_minutes"}});
    }
    if (session.campaign.checkpoint.asynchronous) {
      begin_checkpoint(session);
    } else {
      (void)save_checkpoint(session, CheckpointWhy::interval);
    }
  }
  return false;
}

TokenBuffers::TokenBuffers(dim_t count, dim_t tokens)
    : tokens_(tokens),
      ids_(static_cast<std::size_t>(count * tokens), 0),
      targets_(static_cast<std::size_t>(count * tokens), data::kIgnoreTarget) {}

std::span<std::int32_t> TokenBuffers::ids(dim_t i) {
  return {ids_.data() + i * tokens_, static_cast<std::size_t>(tokens_)};
}

std::span<std::int32_t> TokenBuffers::targets(dim_t i) {
  return {targets_.data() + i * tokens_, static_cast<std::size_t>(tokens_)};
}

device::View TokenBuffers::ids_view(dim_t i) {
  return device::view_of(ids(i).data(), tokens_);
}

device::View TokenBuffers::targets_view(dim_t i) {
  return device::view_of(targets(i).data(), tokens_);
}

LossOnText loss_on_text(Session& session,
                        const std::filesystem::path& path,
                        dim_t sequence_length,
                        dim_t global_batch_size,
                        dim_t batches,
                        const std::function<bool()>& is_over) {
  const State& state = session.state;
  const dim_t micro = state.contract.micro_batch_size;
  const data::BatchShape shape{global_batch_size, micro, state.contract.logical.data};
  const data::OrderedText text(path, sequence_length, global_batch_size, batches);
  engine::Engine& engine = engine_for(session, sequence_length);
  const Range shards = session.store->partition().data_shards();
  const dim_t per_shard = shape.micro_batches_per_shard();
  TokenBuffers buffers(per_shard * shards.size(), micro * sequence_length);
  LossOnText total;
  for (dim_t b = 0; b < text.batches(); ++b) {
    session.faults.pass("evaluate");
    if (is_over && is_over()) {
      total.is_stopped = true;
      break;
    }
    std::vector<engine::MicroBatch> list;
    for (dim_t s = 0; s < shards.size(); ++s) {
      for (dim_t m = 0; m < per_shard; ++m) {
        const dim_t i = s * per_shard + m;
        (void)text.fill(b, shape.samples(shards.begin + s, m), buffers.ids(i), buffers.targets(i));
        list.push_back({.mode = layers::Mode::forward_only,
                        .data_shard = s,
                        .ids = buffers.ids_view(i),
                        .targets = buffers.targets_view(i)});
      }
    }
    if (session.watchdog) {
      session.watchdog->beat(state.step, "validation");
    }
    const std::vector<double> losses = engine.run(list, {});
    total.loss += engine.sum_over_data(losses, 1)[0];
    total.tokens += text.valid_tokens(b);
  }
  total.loss /= static_cast<double>(std::max<dim_t>(total.tokens, 1));
  return total;
}

}  // namespace cambium::phases
