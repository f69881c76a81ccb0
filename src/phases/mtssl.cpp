// phases/mtssl.cpp — semi-supervised classification with a learned threshold (methods.md §2), and
// its supervised control (threshold off: the same labelled batches and steps, no unlabelled text).
// The order of texts is keyed by the step within the phase, so that phase and control see the same
// labelled batches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"
#include "data/mtssl_data.hpp"
#include "data/token.hpp"
#include "optimizer/learning_rate.hpp"
#include "phases/classification.hpp"
#include "phases/mtssl_task.hpp"
#include "phases/regrow.hpp"
#include "phases/training.hpp"

namespace cambium::phases {
namespace {

using config::ThresholdKind;

// The micro-batches of one step on this rank, by data shard: teacher, meta, labelled, strong.
struct Layout {
  std::vector<Role> roles;
  std::vector<dim_t> shard;          // local data shard
  std::vector<dim_t> place;          // first text in its global batch (labelled or unlabelled)
  std::vector<std::size_t> teacher;  // of a strong micro-batch
};

// `is_odd`: which half of the labelled micro-batches is meta; the halves alternate (cross-fitting).
Layout lay_out(const config::MtsslPhase& phase, const State& state, Range shards, bool is_odd) {
  const dim_t micro = state.contract.micro_batch_size;
  const data::BatchShape labelled{phase.global_batch_size, micro, state.contract.logical.data};
  const data::BatchShape unlabelled{
      phase.global_batch_size * phase.unlabelled_ratio, micro, state.contract.logical.data};
  const dim_t n = labelled.micro_batches_per_shard();
  const dim_t n_unlabelled =
      phase.threshold.kind == ThresholdKind::off ? 0 : unlabelled.micro_batches_per_shard();
  const bool is_learned = phase.threshold.kind == ThresholdKind::learned;
  const Range meta = !is_learned ? Range{0, 0} : (is_odd ? Range{0, n / 2} : Range{n - n / 2, n});
  Layout out;
  for (dim_t s = 0; s < shards.size(); ++s) {
    const auto add = [&](Role role, dim_t place, std::size_t teacher) {
      out.roles.push_back(role);
      out.shard.push_back(s);
      out.place.push_back(place);
      out.teacher.push_back(teacher);
    };
    const std::size_t first = out.roles.size();
    for (dim_t m = 0; m < n_unlabelled; ++m) {
      add(Role::teacher, unlabelled.samples(shards.begin + s, m).begin, 0);
    }
    for (dim_t m = meta.begin; m < meta.end; ++m) {
      add(Role::meta, labelled.samples(shards.begin + s, m).begin, 0);
    }
    for (dim_t m = 0; m < n; ++m) {
      if (!meta.contains(m)) {
        add(Role::labelled, labelled.samples(shards.begin + s, m).begin, 0);
      }
    }
    for (dim_t m = 0; m < n_unlabelled; ++m) {
      add(Role::strong,
          unlabelled.samples(shards.begin + s, m).begin,
          first + static_cast<std::size_t>(m));
    }
  }
  return out;
}

// First entry: a fresh threshold, and the classifier where the labels are new.
void begin_phase(Session& session, const config::MtsslPhase& phase, const data::LabelSet& labels) {
  State& state = session.state;
  state.threshold = {.tau = logit(phase.threshold.init)};
  if (state.spec.classifier_uid != 0 && state.labels == labels.names()) {
    return;
  }
  model::Spec spec = state.spec;
  model::add_classifier(spec, labels.size(), state.step);
  session.plans->propose(spec, plan_shape(session, session.store->shape().is_sharded));
  Regrown regrown = prepare_store(session, spec);
  move_entities(session, regrown);
  adopt(session, spec, std::move(regrown));
  state.labels = labels.names();
}

void fill_texts(const data::MtsslData& data,
                const config::MtsslPhase& phase,
                const State& state,
                dim_t step,
                const Layout& layout,
                std::vector<TextMicroBatch>& texts) {
  const dim_t micro = state.contract.micro_batch_size;
  const data::StrongMask mask{state.contract.seed, step, phase.strong.mask_probability};
  for (std::size_t i = 0; i < layout.roles.size(); ++i) {
    const bool is_unlabelled = layout.roles[i] == Role::teacher || layout.roles[i] == Role::strong;
    const data::Sampler& order = is_unlabelled ? data.unlabelled_order : data.labelled_order;
    std::vector<dim_t> samples;
    for (dim_t b = 0; b < micro; ++b) {
      samples.push_back(order.at(step, layout.place[i] + b).sample);
    }
    texts[i].fill(is_unlabelled ? data.unlabelled : data.labelled, samples, phase.sequence_length);
    if (layout.roles[i] == Role::strong) {
      data::mask_strongly(mask, texts[i].uids, phase.sequence_length, texts[i].view());
    }
  }
}

std::vector<engine::MicroBatch> make_batches(const Layout& layout,
                                             std::vector<TextMicroBatch>& texts) {
  std::vector<engine::MicroBatch> batches;
  for (std::size_t i = 0; i < layout.roles.size(); ++i) {
    const bool is_trained = layout.roles[i] == Role::labelled || layout.roles[i] == Role::strong;
    batches.push_back(
        {.mode = is_trained ? layers::Mode::train : layers::Mode::forward_only,
         .task = engine::Task::classify,
         .data_shard = layout.shard[i],
         .ids = device::view_of(texts[i].ids.data(), static_cast<dim_t>(texts[i].ids.size())),
         .last_row = texts[i].last_rows(),
         .role = static_cast<int>(layout.roles[i])});
  }
  return batches;
}

void record_accuracy(Session& session,
                     const config::MtsslPhase& phase,
                     const data::MtsslData& data) {
  const Accuracy a = accuracy_on(session,
                                 data.held_out,
                                 phase.sequence_length,
                                 phase.global_batch_size,
                                 phase.validation.batches);
  if (session.writers) {
    session.writers->metrics.write({{"phase", session.phase().name},
                                    {"kind", session.phase().kind()},
                                    {"step", session.state.step},
                                    {"accuracy", a.share()},
                                    {"correct", a.correct},
                                    {"examples", a.samples}});
  }
  say(session,
      fmt::format("{}: step {}: held-out accuracy {:.2f} % ({} of {})",
                  session.phase().name,
                  session.state.step,
                  100 * a.share(),
                  a.correct,
                  a.samples));
}

metrics::Fields describe(const StepResult& result,
                         const MtsslStep& step,
                         double gradient,
                         const Threshold& after) {
  const std::vector<double>& s = result.sums;
  const double unlabelled = std::max(step.unlabelled, 1.0);
  metrics::Fields row{{"supervised_loss", s[kLabelledLoss] / step.labelled},
                      {"train_accuracy", s[kCorrect] / step.labelled}};
  if (step.unlabelled > 0) {
    row.add("unsupervised_loss", s[kUnlabelledLoss] / unlabelled)
        .add("tau", after.tau)
        .add("threshold", sigmoid(after.tau))
        .add("coverage", s[kMask] / unlabelled)
        .add("hard_coverage", s[kPassed] / unlabelled);
  }
  if (step.is_learned) {
    row.add("threshold_gradient", gradient);
  }
  return row;
}

// Steps in a row without a pseudo-label, of which one warning tells.
constexpr dim_t kBarrenSteps = 10;

// The unlabelled texts then teach nothing: a threshold that no confidence reaches looks like a
// phase that works.
void warn_when_barren(Session& session, dim_t barren) {
  if (barren != kBarrenSteps) {
    return;
  }
  const double threshold = sigmoid(session.state.threshold.tau);
  note_event(session,
             "no_pseudo_labels",
             {{"step", session.state.step}, {"steps", barren}, {"threshold", threshold}});
  warn(session,
       fmt::format("{}: no unlabelled text passed the threshold {:.4f} in the last {} steps; lower "
                   "threshold.init or train on labels first",
                   session.phase().name,
                   threshold,
                   barren));
}

}  // namespace

PhaseEnd run_mtssl(Session& session) {
  const auto& phase = std::get<config::MtsslPhase>(session.phase().settings);
  State& state = session.state;
  const data::MtsslData data = data::load_mtssl_data(phase, state.contract.seed);
  for (const std::string& w : data.warnings) {
    session.log.warn(w);
  }
  if (!state.is_phase_begun) {
    begin_phase(session, phase, data.labels);
    state.is_phase_begun = true;
  }
  engine::Engine& engine = engine_for(session, phase.sequence_length);
  const params::Partition& where = session.store->partition();
  const Range shards = where.data_shards();
  const dim_t micro = state.contract.micro_batch_size;
  Layout layout = lay_out(phase, state, shards, true);
  std::vector<TextMicroBatch> texts(layout.roles.size(),
                                    TextMicroBatch(micro, phase.sequence_length));
  std::vector<std::size_t> teacher_of = layout.teacher;
  MtsslTask task(engine, session.groups, where, texts, teacher_of);
  const bool is_learned = phase.threshold.kind == ThresholdKind::learned;
  dim_t barren = 0;

  if (session.phase_step() == 0) {
    record_accuracy(session, phase, data);
  }
  while (session.phase_step() < phase.steps) {
    const dim_t step = session.phase_step() + 1;
    layout = lay_out(phase, state, shards, step % 2 == 1);
    teacher_of = layout.teacher;
    fill_texts(data, phase, state, step, layout, texts);
    const std::vector<engine::MicroBatch> batches = make_batches(layout, texts);
    const auto count = [&](Role role) {  // texts of the whole step
      return static_cast<double>(std::count(layout.roles.begin(), layout.roles.end(), role) *
                                 micro * state.contract.logical.data / shards.size());
    };
    const MtsslStep setting{.tau = state.threshold.tau,
                            .temperature = phase.threshold.temperature,
                            .lambda = phase.unlabelled_weight,
                            .labelled = count(Role::labelled),
                            .meta = count(Role::meta),
                            .unlabelled = count(Role::strong),
                            .is_learned = is_learned};
    task.begin(setting);
    StepInput input;
    input.batches = batches;
    input.classify = &task;
    input.optimizer = &phase.optimizer;
    input.learning_rate = optimizer::learning_rate_at(phase.learning_rate, step, phase.steps);
    input.tokens = static_cast<dim_t>(layout.roles.size()) * micro * phase.sequence_length *
                   state.contract.logical.data / shards.size();
    input.leaves = [&](const std::vector<double>&) {
      return engine.is_last_stage() ? task.finish() : std::vector<double>{};
    };
    input.width = kMtsslWidth;
    const StepResult result = train_step(session, engine, input);
    const double gradient = threshold_gradient(
        result.sums[kProducts], input.learning_rate, phase.unlabelled_weight, setting.unlabelled);
    if (is_learned && !result.is_skipped) {
      update_threshold(state.threshold,
                       gradient,
                       {.learning_rate = phase.threshold.learning_rate,
                        .classes = data.labels.size(),
                        .warmup_updates = phase.steps / 20});
    }
    const double loss =
        result.sums[kLabelledLoss] / setting.labelled +
        (setting.unlabelled > 0
             ? phase.unlabelled_weight * result.sums[kUnlabelledLoss] / setting.unlabelled
             : 0.0);
    record_step(session,
                result,
                loss,
                input,
                phase.steps,
                describe(result, setting, gradient, state.threshold));
    barren = setting.unlabelled > 0 && result.sums[kPassed] == 0 ? barren + 1 : 0;
    warn_when_barren(session, barren);
    const bool is_last = session.phase_step() == phase.steps;
    const dim_t every = phase.validation.every_steps;
    if (is_last || (every > 0 && step % every == 0)) {
      record_accuracy(session, phase, data);
    }
    if (finish_step(session, result, is_last)) {
      return PhaseEnd::stopped;
    }
  }
  return PhaseEnd::done;
}

}  // namespace cambium::phases
