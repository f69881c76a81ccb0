// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "metrics/report_parts.hpp"
#include "metrics/svg_chart.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

bool is_semi(const PhaseRecord& phase) {
  return phase.kind == "mtssl";
}

void append(Series& to, const Series& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<ChartBand> bands_of(const RunRecord& run, bool semi) {
  std::vector<ChartBand> bands;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.steps > 0 && is_semi(phase) == semi) {
      const auto first = static_cast<double>(phase.first_step);
      bands.push_back({first - 0.5, static_cast<double>(phase.last_step) + 0.5, phase.name});
    }
  }
  return bands;
}

// "insert_layers after 2 × 2, widen_mlp" is too long for a mark: the phase's name says it, the
// table has the rest.
std::vector<ChartMark> growth_marks(const RunRecord& run) {
  std::vector<ChartMark> marks;
  for (const nlohmann::json& event : run.growths) {
    const GrowthProof proof = growth_proof(event);
    if (proof.committed) {
      marks.push_back({static_cast<double>(proof.step) + 0.5, "growth: " + proof.phase});
    }
  }
  return marks;
}

// Rows of phases that ran on different branches (start_from) may not ascend over the campaign.
void sort_by_x(Series& series) {
  std::ranges::stable_sort(series, {}, &Point::x);
}

std::string figure(const std::string& heading, const std::string& svg, const std::string& caption) {
  if (svg.empty()) {
    return {};
  }
  return fmt::format("<figure><h3>{}</h3>{}<figcaption>{}</figcaption></figure>\n",
                     escape_html(heading),
                     svg,
                     escape_html(caption));
}

std::string training_chart(const RunRecord& run,
                           const std::string& field,
                           const std::string& title) {
  Chart chart{.title = title, .x_label = "step", .y_label = title, .height = 240};
  ChartSeries series{.name = title};
  for (const PhaseRecord& phase : run.phases) {
    append(series.points, phase.of(field));
  }
  sort_by_x(series.points);
  chart.series.push_back(std::move(series));
  chart.bands = bands_of(run, false);
  const std::vector<ChartBand> semi = bands_of(run, true);
  chart.bands.insert(chart.bands.end(), semi.begin(), semi.end());
  return render_chart(chart);
}

// The same updates of two phases lie above each other: x counts a phase's own updates.
Series from_own_start(const PhaseRecord& phase, const Series& series) {
  Series moved = series;
  const double start =
      static_cast<double>(phase.steps > 0 ? phase.first_step : phase.after_step.value_or(0) + 1);
  for (Point& point : moved) {
    point.x -= start - 1;
  }
  return moved;
}

std::string accuracy_chart(const RunRecord& run) {
  Chart chart{.title = "held-out accuracy",
              .x_label = "updates of the phase",
              .y_label = "held-out accuracy",
              .height = 260};
  bool is_curve = false;
  for (const PhaseRecord& phase : run.phases) {
    const Series& accuracy = phase.of("accuracy");
    if (is_semi(phase) && !accuracy.empty()) {
      is_curve = is_curve || accuracy.size() > 1;
      chart.series.push_back({.name = phase.name + (phase.is_control() ? " (control)" : ""),
                              .colour = static_cast<int>(chart.series.size() % 6) + 1,
                              .dots = true,
                              .points = from_own_start(phase, accuracy)});
    }
  }
  return is_curve ? render_chart(chart) : std::string();
}

}  // namespace

std::string loss_section(const RunRecord& run) {
  Chart chart{.title = "loss", .x_label = "step", .y_label = "loss per token (nats)"};
  ChartSeries train{.name = "training", .colour = 1};
  ChartSeries validation{.name = "validation", .colour = 2, .dots = true};
  for (const PhaseRecord& phase : run.phases) {
    if (!is_semi(phase)) {
      append(train.points, phase.of("loss"));
      append(validation.points, phase.of("validation_loss"));
    }
  }
  sort_by_x(train.points);
  sort_by_x(validation.points);
  chart.series = {train, validation};
  chart.bands = bands_of(run, false);
  chart.marks = growth_marks(run);
  const bool exact = std::ranges::all_of(
      run.growths, [](const nlohmann::json& event) { return growth_proof(event).is_exact(); });
  const std::string caption =
      std::string("Each band is a phase. A vertical line is a growth step") +
      (exact ? ": the grown network computes the same function, so the curve goes on from "
               "where it was."
             : ".");
  const std::string svg = render_chart(chart);
  if (svg.empty()) {
    return {};
  }
  return "<section><h2>Loss</h2>" +
         figure("Training and validation", svg, chart.marks.empty() ? "" : caption) +
         "</section>\n";
}

std::string semi_supervised_section(const RunRecord& run) {
  std::string out = accuracy_table(run);
  Chart losses{.title = "loss of the semi-supervised phases",
               .x_label = "updates of the phase",
               .y_label = "supervised loss (nats)",
               .height = 260};
  for (const PhaseRecord& phase : run.phases) {
    if (!is_semi(phase)) {
      continue;
    }
    Chart chart{.title = "threshold of " + phase.name,
                .x_label = "step",
                .y_label = "share",
                .y_min = 0.0,
                .y_max = 1.0,
                .height = 280};
    if (!phase.is_control()) {
      chart.series = {{.name = "threshold", .colour = 1, .points = phase.of("threshold")},
                      {.name = "coverage", .colour = 2, .points = phase.of("coverage")},
                      {.name = "pseudo-label precision",
                       .colour = 3,
                       .points = phase.of("pseudo_label_precision")}};
    }
    out +=
        figure("Threshold: " + phase.name,
               render_chart(chart),
               "Threshold: the confidence from which a pseudo-label counts. Coverage: the share of "
               "unlabelled texts "
               "above it. Precision, where known: the share of those whose pseudo-label is right.");
    const Series& supervised =
        phase.of("supervised_loss").empty() ? phase.of("loss") : phase.of("supervised_loss");
    losses.series.push_back({.name = phase.name + (phase.is_control() ? " (control)" : ""),
                             .colour = static_cast<int>(losses.series.size() % 6) + 1,
                             .points = from_own_start(phase, supervised)});
  }
  out += figure("Accuracy", accuracy_chart(run), "");
  out += figure("Supervised loss", render_chart(losses), "");
  return out.empty() ? out : "<section><h2>Semi-supervised phases</h2>" + out + "</section>\n";
}

std::string more_curves_section(const RunRecord& run) {
  const std::string curves =
      figure("Learning rate", training_chart(run, "learning_rate", "learning rate"), "") +
      figure("Gradient norm", training_chart(run, "grad_norm", "gradient norm"), "") +
      figure("Speed", training_chart(run, "tokens_per_second", "tokens per second"), "");
  if (curves.empty()) {
    return {};
  }
  return "<section><details><summary>Learning rate, gradient norm, speed</summary>" + curves +
         "</details></section>\n";
}

}  // namespace cambium::metrics
