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

// What the phase keeps between its steps.
class Mtssl {
 public:
  Mtssl(Session& session, const config::MtsslPhase& phase, const data::MtsslData& data)
      : session_(session),
        phase_(phase),
        data_(data),
        engine_(engine_for(session, phase.sequence_length)),
        shards_(session.store->partition().data_shards()),
        layout_(lay_out(phase, session.state, shards_, true)),
        texts_(layout_.roles.size(),
               TextMicroBatch(session.state.contract.micro_batch_size, phase.sequence_length)),
        teacher_of_(layout_.teacher),
        task_(engine_, session.groups, session.store->partition(), texts_, teacher_of_) {}

  // One update of parameters and threshold, recorded. `step` counts within the phase, from 1.
  StepResult train(dim_t step) {
    layout_ = lay_out(phase_, session_.state, shards_, step % 2 == 1);
    teacher_of_ = layout_.teacher;
    fill_texts(data_, phase_, session_.state, step, layout_, texts_);
    const std::vector<engine::MicroBatch> batches = make_batches(layout_, texts_);
    const MtsslStep setting = setting_of_step();
    task_.begin(setting);
    StepInput input;
    input.batches = batches;
    input.classify = &task_;
    input.optimizer = &phase_.optimizer;
    input.learning_rate = optimizer::learning_rate_at(phase_.learning_rate, step, phase_.steps);
    input.tokens = of_whole_step(static_cast<dim_t>(layout_.roles.size())) * phase_.sequence_length;
    input.leaves = [&](const std::vector<double>&) {
      return engine_.is_last_stage() ? task_.finish() : std::vector<double>{};
    };
    input.width = kMtsslWidth;
    const StepResult result = train_step(session_, engine_, input);
    const double gradient = learn_threshold(result, setting, input.learning_rate);
    record_step(session_,
                result,
                loss_of(result, setting),
                input,
                phase_.steps,
                describe(result, setting, gradient, session_.state.threshold));
    barren_ = setting.unlabelled > 0 && result.sums[kPassed] == 0 ? barren_ + 1 : 0;
    warn_when_barren(session_, barren_);
    return result;
  }

 private:
  // Texts of the whole step, of so many micro-batches on this rank.
  [[nodiscard]] dim_t of_whole_step(dim_t micro_batches) const {
    const State& state = session_.state;
    return micro_batches * state.contract.micro_batch_size * state.contract.logical.data /
           shards_.size();
  }

  [[nodiscard]] MtsslStep setting_of_step() const {
    const auto count = [&](Role role) {
      return static_cast<double>(
          of_whole_step(std::count(layout_.roles.begin(), layout_.roles.end(), role)));
    };
    return {.tau = session_.state.threshold.tau,
            .temperature = phase_.threshold.temperature,
            .lambda = phase_.unlabelled_weight,
            .labelled = count(Role::labelled),
            .meta = count(Role::meta),
            .unlabelled = count(Role::strong),
            .is_learned = phase_.threshold.kind == ThresholdKind::learned};
  }

  // Returns the threshold's gradient.
  double learn_threshold(const StepResult& result, const MtsslStep& setting, double learning_rate) {
    const double gradient = threshold_gradient(
        result.sums[kProducts], learning_rate, phase_.unlabelled_weight, setting.unlabelled);
    if (setting.is_learned && !result.is_skipped) {
      update_threshold(session_.state.threshold,
                       gradient,
                       {.learning_rate = phase_.threshold.learning_rate,
                        .classes = data_.labels.size(),
                        .warmup_updates = phase_.steps / 20});
    }
    return gradient;
  }

  [[nodiscard]] double loss_of(const StepResult& result, const MtsslStep& setting) const {
    return result.sums[kLabelledLoss] / setting.labelled +
           (setting.unlabelled > 0
                ? phase_.unlabelled_weight * result.sums[kUnlabelledLoss] / setting.unlabelled
                : 0.0);
  }

  Session& session_;
  const config::MtsslPhase& phase_;
  const data::MtsslData& data_;
  engine::Engine& engine_;
  Range shards_;
  Layout layout_;
  std::vector<TextMicroBatch> texts_;
  std::vector<std::size_t> teacher_of_;
  MtsslTask task_;
  dim_t barren_ = 0;  // steps in a row without a pseudo-label
};

}  // namespace

PhaseEnd run_mtssl(Session& session) {
  const auto& phase = std::get<config::MtsslPhase>(session.phase().settings);
  const data::MtsslData data = data::load_mtssl_data(phase, session.state.contract.seed);
  for (const std::string& w : data.warnings) {
    session.log.warn(w);
  }
  if (!session.state.is_phase_begun) {
    begin_phase(session, phase, data.labels);
    session.state.is_phase_begun = true;
  }
  Mtssl run(session, phase, data);
  if (session.phase_step() == 0) {
    record_accuracy(session, phase, data);
  }
  while (session.phase_step() < phase.steps) {
    const StepResult result = run.train(session.phase_step() + 1);
    const dim_t step = session.phase_step();
    const bool is_last = step == phase.steps;
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
