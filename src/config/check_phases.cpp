// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

#include "config/check_campaign.hpp"
#include "config/nearest.hpp"
#include "config/scalars.hpp"

namespace cambium::config {
namespace {

// What is known of the model when a phase starts.
struct ModelState {
  dim_t layers = 0;  // 0: unknown, the model comes from a checkpoint
  std::set<std::string> inserted_after;
  bool has_head = false;  // a classification head: after an mtssl phase
};

class PhaseChecker {
 public:
  PhaseChecker(const Campaign& campaign, Problems& problems)
      : campaign_(campaign), problems_(problems) {}

  void run() {
    ModelState state{
        .layers = campaign_.model.num_hidden_layers, .inserted_after = {}, .has_head = false};
    std::map<std::string, ModelState> after;
    for (index_ = 0; index_ < campaign_.phases.size(); ++index_) {
      const Phase& phase = campaign_.phases[index_];
      path_ = phase_path(campaign_, index_);
      check_name(phase, after);
      if (phase.start_from) {
        const auto from = after.find(*phase.start_from);
        if (from != after.end()) {
          state = from->second;
        } else {
          refuse_start(*phase.start_from, after);
        }
      }
      std::visit([&](const auto& settings) { check(settings, state); }, phase.settings);
      after.emplace(phase.name, state);
    }
  }

 private:
  void add(std::string_view key, std::string text) {
    problems_.push_back({fmt::format("{}.{}", path_, key), std::move(text)});
  }

  void check_name(const Phase& phase, const std::map<std::string, ModelState>& before) {
    constexpr std::string_view kName =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    if (before.contains(phase.name) && !phase.name.empty()) {
      add("name",
          fmt::format("a phase before it is also called {}, expected a name of its own",
                      phase.name));
    }
    if (phase.name.find_first_not_of(kName) != std::string::npos) {
      add("name", fmt::format("expected letters, digits, '_' and '-', got \"{}\"", phase.name));
    }
  }

  void refuse_start(const std::string& name, const std::map<std::string, ModelState>& before) {
    std::vector<std::string> names;
    for (const auto& [other, state] : before) {
      names.push_back(other);
    }
    const std::optional<std::string> near = nearest_name(name, names);
    add("start_from",
        fmt::format("no phase {} before this one{}",
                    name,
                    near            ? "; did you mean " + *near + "?"
                    : names.empty() ? "; it is the first"
                                    : "; expected one of " + join(names)));
  }

  void check_length(dim_t length) {
    const dim_t limit = campaign_.model.max_position_embeddings;
    if (!campaign_.model.from && length > limit) {
      add("sequence_length",
          fmt::format("{}, expected at most model.max_position_embeddings {}", length, limit));
    }
    const dim_t shards = default_logical_mesh(campaign_, campaign_.parallel.tensor, 1).tensor;
    if (length > 0 && length < shards) {
      add("sequence_length",
          fmt::format(
              "{}, expected at least the {} logical tensor shards that cut it", length, shards));
    }
  }

  void check_rate(const LearningRateConfig& rate, dim_t steps) {
    if (steps <= 0) {
      return;
    }
    if (rate.warmup_steps > steps) {
      add("learning_rate.warmup_steps",
          fmt::format("{}, expected at most steps {}", rate.warmup_steps, steps));
    }
    if (rate.kind == LearningRateKind::wsd && rate.warmup_steps + rate.decay_steps > steps) {
      add("learning_rate.decay_steps",
          fmt::format("warmup_steps {} + decay_steps {} = {}, expected at most steps {}",
                      rate.warmup_steps,
                      rate.decay_steps,
                      rate.warmup_steps + rate.decay_steps,
                      steps));
    }
    if (rate.kind != LearningRateKind::wsd && rate.decay_steps != 0) {
      add("learning_rate.decay_steps",
          "only kind wsd has it; linear and cosine decay to the last step");
    }
    if (rate.kind == LearningRateKind::constant && rate.final != 0) {
      add("learning_rate.final", "kind constant stays at peak; use linear, cosine or wsd");
    }
    if (rate.final > rate.peak) {
      add("learning_rate.final",
          fmt::format(
              "{}, expected at most peak {}", format_number(rate.final), format_number(rate.peak)));
    }
  }

  void check(const PretrainPhase& phase, const ModelState& /*state*/) {
    check_length(phase.sequence_length);
    check_rate(phase.learning_rate, phase.steps);
  }

  void check(const EvaluatePhase& phase, const ModelState& state) {
    check_length(phase.sequence_length);
    if (phase.task == EvaluateTask::accuracy && !state.has_head) {
      add("task", "accuracy needs a phase of kind mtssl before it, whose head and labels it takes");
    }
  }

  void check(const MtsslPhase& phase, ModelState& state) {
    state.has_head = true;
    check_length(phase.sequence_length);
    check_rate(phase.learning_rate, phase.steps);
    if (!phase.labels.empty() && phase.intents > 0) {
      add("intents", "labels is given too, expected one of the two");
    }
    if (phase.intents == 1 || phase.labels.size() == 1) {
      add(phase.intents == 1 ? "intents" : "labels", "one class, expected at least two");
    }
    const std::set<std::string> unique(phase.labels.begin(), phase.labels.end());
    if (unique.size() != phase.labels.size()) {
      add("labels", "a name stands twice");
    }
  }

  void check(const GrowPhase& phase, ModelState& state) {
    for (std::size_t i = 0; i < phase.operations.size(); ++i) {
      const std::string key =
          fmt::format("operations.{}.{}.after", i, operation_name(phase.operations[i]));
      std::visit([&](const auto& operation) { apply(operation, key, state); }, phase.operations[i]);
    }
  }

  void apply(const InsertLayers& operation, const std::string& key, ModelState& state) {
    if (campaign_.model.from) {
      return;
    }
    if (operation.after >= state.layers && state.layers > 0) {
      add(key,
          fmt::format(
              "no layer {}, expected -1 (the front) … {}", operation.after, state.layers - 1));
    }
    state.layers += operation.count;
  }

  // A named module (model::insertion_points) of a layer that is there by then.
  void apply(const InsertGatedResidual& operation,
             const std::string& key,
             const ModelState& state) {
    static const std::set<std::string_view> kOfLayer = {
        "", "attention_norm", "attention", "mlp_norm", "mlp"};
    const std::string_view target = operation.after;
    if (target == "embedding" || target == "norm") {
      return;
    }
    std::optional<std::uint64_t> layer;
    std::string_view module;
    if (target.starts_with("layers.")) {
      const std::string_view rest = target.substr(7);
      const std::size_t dot = rest.find('.');
      layer = parse_unsigned(rest.substr(0, dot));
      module = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    }
    if (!layer || !kOfLayer.contains(module)) {
      add(key,
          fmt::format("expected embedding, layers.N.attention_norm, layers.N.attention, "
                      "layers.N.mlp_norm, layers.N.mlp or norm, got {}",
                      target));
    } else if (state.layers > 0 && static_cast<dim_t>(*layer) >= state.layers) {
      add(key, fmt::format("no layer {}, expected 0 … {}", *layer, state.layers - 1));
    }
  }

  const Campaign& campaign_;
  Problems& problems_;
  std::size_t index_ = 0;
  std::string path_;
};

}  // namespace

void check_phases(const Campaign& campaign, Problems& problems) {
  PhaseChecker(campaign, problems).run();
}

}  // namespace cambium::config
