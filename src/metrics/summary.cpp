// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "metrics/report.hpp"
#include "metrics/report_parts.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

std::string from_to(const Ends& ends) {
  if (!ends.any || ends.is_one) {
    return ends.any ? loss_text(ends.last) : "-";
  }
  return fmt::format("{} -> {}", loss_text(ends.first), loss_text(ends.last));
}

std::string phase_lines(const RunRecord& run) {
  std::size_t width = 5;
  for (const PhaseRecord& phase : run.phases) {
    width = std::max(width, phase.name.size());
  }
  std::string out;
  for (const PhaseRecord& phase : run.phases) {
    const bool trained = phase.steps > 0;
    if (!trained && phase.of("validation_loss").empty()) {
      continue;
    }
    out += fmt::format("  {:{}}  {:8}  {:>11}  {:20}  {:20}  {:>9}  {}\n",
                       phase.name,
                       width,
                       phase.kind,
                       trained ? fmt::format("{}-{}", phase.first_step, phase.last_step) : "-",
                       from_to(raw_ends_of(phase.of("loss"))),
                       from_to(raw_ends_of(phase.of("validation_loss"))),
                       trained ? large_text(phase.tokens) : "-",
                       trained ? seconds_text(phase.seconds) : "-");
  }
  if (out.empty()) {
    return out;
  }
  const std::string head = fmt::format("  {:{}}  {:8}  {:>11}  {:20}  {:20}  {:>9}  {}\n",
                                       "phase",
                                       width,
                                       "kind",
                                       "steps",
                                       "loss, first -> last",
                                       "validation loss",
                                       "tokens",
                                       "time");
  return "\nPhases\n" + head + out;
}

std::string growth_lines(const RunRecord& run) {
  std::string out;
  for (const nlohmann::json& event : run.growths) {
    const GrowthProof proof = growth_proof(event);
    out += fmt::format("\nGrowth '{}' after step {}{}\n",
                       proof.phase,
                       proof.step,
                       proof.committed ? "" : ": rolled back, the network is as it was");
    for (const std::string& operation : proof.operations) {
      out += fmt::format("  {}\n", operation);
    }
    if (!std::isnan(proof.parameters_after)) {
      out += fmt::format("  parameters: {} -> {}\n",
                         count_text(proof.parameters_before),
                         count_text(proof.parameters_after));
    }
    out += fmt::format("  proof, old network against new: {}\n", proof_text(proof));
    std::string cost;
    const auto add = [&](const std::string& text) { cost += cost.empty() ? text : ", " + text; };
    if (!std::isnan(proof.nodes_recomputed)) {
      add(count_text(proof.nodes_recomputed) +
          (std::isnan(proof.nodes) ? "" : " of " + count_text(proof.nodes)) +
          " plan nodes recomputed");
    }
    if (!std::isnan(proof.bytes_moved)) {
      add(bytes_text(proof.bytes_moved) + " moved");
    }
    if (!std::isnan(proof.seconds)) {
      add("pause " + seconds_text(proof.seconds));
    }
    out += cost.empty() ? cost : fmt::format("  cost: {}\n", cost);
  }
  return out;
}

std::string accuracy_line(const PhaseRecord& phase) {
  std::string out = fmt::format(
      "  {}: accuracy {}", phase.name, percent_text(ends_of(phase.of("accuracy")).last));
  if (phase.examples > 0) {
    out += fmt::format(" on {} held-out examples", count_text(phase.examples));
  }
  const Ends threshold = ends_of(phase.of("threshold"));
  if (!phase.is_control() && !std::isnan(threshold.last)) {
    out += fmt::format(", threshold {:.3f} -> {:.3f}", threshold.first, threshold.last);
  }
  const Ends coverage = ends_of(phase.of("coverage"));
  if (!phase.is_control() && !std::isnan(coverage.last)) {
    out += fmt::format(", coverage {}", percent_text(coverage.last));
  }
  return out + (phase.is_control() ? " (supervised control)\n" : "\n");
}

std::string verdict_line(const PhaseRecord& phase, const PhaseRecord& control) {
  const double points =
      100 * (ends_of(phase.of("accuracy")).last - ends_of(control.of("accuracy")).last);
  if (std::isnan(points)) {
    return {};
  }
  if (points == 0) {
    return fmt::format("  => {} and its control {} are equal\n", phase.name, control.name);
  }
  return fmt::format(
      "  => {} by {:.2f} points ({} against its control {})\n",
      points > 0 ? "semi-supervised training is ahead" : "the supervised control is ahead",
      std::abs(points),
      phase.name,
      control.name);
}

std::string accuracy_lines(const RunRecord& run) {
  std::string lines;
  std::string verdicts;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.of("accuracy").empty()) {
      continue;
    }
    lines += accuracy_line(phase);
    const PhaseRecord* control =
        phase.kind == "mtssl" && !phase.is_control() ? run.control_of(phase) : nullptr;
    verdicts += control == nullptr ? std::string() : verdict_line(phase, *control);
  }
  return lines.empty() ? lines : "\nAccuracy\n" + lines + verdicts;
}

std::string restart_lines(const RunRecord& run) {
  std::string out;
  for (const nlohmann::json& event : run.events_named("restart")) {
    out += fmt::format("  attempt {:.0f} went on after step {:.0f}",
                       number_or(event, "attempt", 0),
                       number_or(event, "step", 0));
    const std::string from = text_or(event, "from_layout", "");
    const std::string to = text_or(event, "to_layout", "");
    out += from.empty() || to.empty() || from == to ? "\n"
                                                    : fmt::format(", layout {} -> {}\n", from, to);
  }
  return out.empty() ? out : "\nRestarts\n" + out;
}

// "1.19 MiB to 1.25 MiB", or one value where all ranks have the same; empty where a rank lacks it.
std::string over_ranks(const nlohmann::json& ranks, const char* key, std::string (*text)(double)) {
  double least = kNotANumber;
  double most = kNotANumber;
  for (const nlohmann::json& rank : ranks) {
    const double value = number_or(rank, key, kNotANumber);
    if (std::isnan(value)) {
      return {};
    }
    least = std::fmin(least, value);
    most = std::fmax(most, value);
  }
  return text(least) == text(most) ? text(most) : text(least) + " to " + text(most);
}

// What one rank holds and does: far less than the whole, or the model is not divided.
std::string rank_lines(const RunRecord& run) {
  if (!run.ranks.is_array() || run.ranks.empty()) {
    return {};
  }

  struct Quantity {
    const char* key;
    const char* name;
    std::string (*text)(double);
  };

  constexpr Quantity kQuantities[] = {{"parameter_bytes", "parameters", bytes_text},
                                      {"optimizer_bytes", "optimizer", bytes_text},
                                      {"activation_bytes", "activations", bytes_text},
                                      {"product_flops", "product FLOPs", large_text},
                                      {"bytes_sent", "sent", bytes_text}};
  std::string out;
  for (const Quantity& q : kQuantities) {
    const std::string range = over_ranks(run.ranks, q.key, q.text);
    if (!range.empty()) {
      out += fmt::format("  {:14} {}\n", q.name, range);
    }
  }
  return out.empty() ? out
                     : fmt::format("\nEach of {} rank{}\n{}",
                                   run.ranks.size(),
                                   run.ranks.size() == 1 ? "" : "s",
                                   out);
}

}  // namespace

std::string make_summary(const std::filesystem::path& folder) {
  const RunRecord run = read_run(folder);
  std::string out = fmt::format("Cambium: {} ({})\n", run.name, folder.string());
  out += phase_lines(run);
  out += growth_lines(run);
  out += accuracy_lines(run);
  out += restart_lines(run);
  out += rank_lines(run);
  out += "\n";
  if (std::filesystem::exists(folder / "report.html")) {
    out += fmt::format("Report:       {}\n", (folder / "report.html").string());
  }
  if (std::filesystem::exists(folder / "checkpoints")) {
    out += fmt::format(
        "Checkpoints:  {}{}\n",
        (folder / "checkpoints").string(),
        run.latest_checkpoint.empty() ? "" : " (latest: " + run.latest_checkpoint + ")");
  }
  out += fmt::format("Every number: {}\n", (folder / "metrics.jsonl").string());
  return out;
}

}  // namespace cambium::metrics
