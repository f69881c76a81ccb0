// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <set>

#include "metrics/report_parts.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

using nlohmann::json;

constexpr std::string_view kNothing = "<span class=\"none\">–</span>";

struct Column {
  std::string name;
  bool is_number = true;
  bool wraps = false;  // a long text
};

// Cells are HTML already.
std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const Column& column : columns) {
    out += fmt::format(
        "<th{}>{}</th>", column.is_number ? " class=\"n\"" : "", escape_html(column.name));
  }
  out += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += fmt::format(
          "<td{}>{}</td>",
          columns[i].is_number ? " class=\"n\"" : (columns[i].wraps ? " class=\"wrap\"" : ""),
          row[i]);
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

template <typename Format>
std::string or_nothing(double value, Format format) {
  return std::isnan(value) ? std::string(kNothing) : format(value);
}

std::string from_to(const Ends& ends) {
  if (!ends.any) {
    return std::string(kNothing);
  }
  if (ends.is_one) {
    return fmt::format("<b>{}</b>", loss_text(ends.last));
  }
  return fmt::format("{} → <b>{}</b>", loss_text(ends.first), loss_text(ends.last));
}

// A field's value as its name suggests: bytes, operations, text.
std::string cell_of(const std::string& key, const json& value) {
  if (value.is_string()) {
    return escape_html(value.get<std::string>());
  }
  if (!value.is_number()) {
    return value.is_null() ? std::string(kNothing) : escape_html(value.dump());
  }
  const double number = value.get<double>();
  if (key.find("bytes") != std::string::npos) {
    return bytes_text(number);
  }
  if (key.find("flops") != std::string::npos) {
    return large_text(number);
  }
  if (key.find("seconds") != std::string::npos) {
    return seconds_text(number);
  }
  return value.is_number_integer() ? count_text(number) : fmt::format("{:.6g}", number);
}

std::string words(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

// One row a rank: the keys of its place that any rank has, then `keys`.
std::string ranks_table(const json& ranks,
                        const std::vector<std::string>& place,
                        const std::vector<std::string>& keys) {
  std::vector<std::string> all;
  std::ranges::copy_if(place, std::back_inserter(all), [&](const std::string& key) {
    return std::ranges::any_of(ranks, [&](const json& rank) { return rank.contains(key); });
  });
  all.insert(all.end(), keys.begin(), keys.end());
  std::vector<Column> columns;
  for (const std::string& key : all) {
    columns.push_back({words(key), key != "host"});
  }
  std::vector<std::vector<std::string>> rows;
  for (const json& rank : ranks) {
    std::vector<std::string> row;
    for (const std::string& key : all) {
      row.push_back(rank.contains(key) ? cell_of(key, rank[key]) : std::string(kNothing));
    }
    rows.push_back(std::move(row));
  }
  return table(columns, rows);
}

}  // namespace

Ends raw_ends_of(const Series& series) {
  if (series.empty()) {
    return {};
  }
  return {.any = true,
          .is_one = series.size() == 1,
          .first = series.front().y,
          .last = series.back().y};
}

Ends ends_of(const Series& series) {
  Series finite;
  std::ranges::copy_if(
      series, std::back_inserter(finite), [](const Point& p) { return std::isfinite(p.y); });
  return raw_ends_of(finite);
}

GrowthProof growth_proof(const json& event) {
  GrowthProof proof{.phase = text_or(event, "phase", "growth"),
                    .step = static_cast<dim_t>(number_or(event, "step", 0))};
  const auto operations = event.find("operations");
  if (operations != event.end() && operations->is_array()) {
    for (const json& operation : *operations) {
      proof.operations.push_back(operation.is_string() ? operation.get<std::string>()
                                                       : operation.dump());
    }
  }
  const auto committed = event.find("committed");
  proof.committed = committed == event.end() || !committed->is_boolean() || committed->get<bool>();
  proof.max_difference = number_or(event, "probe_max_difference", kNotANumber);
  proof.values = number_or(event, "probe_values", kNotANumber);
  proof.differing = number_or(event, "probe_differing", kNotANumber);
  proof.parameters_before = number_or(event, "parameters_before", kNotANumber);
  proof.parameters_after = number_or(event, "parameters_after", kNotANumber);
  proof.nodes = number_or(event, "nodes", kNotANumber);
  proof.nodes_recomputed = number_or(event, "nodes_recomputed", kNotANumber);
  proof.bytes_allocated = number_or(event, "bytes_allocated", kNotANumber);
  proof.bytes_moved = number_or(event, "bytes_moved", kNotANumber);
  proof.seconds = number_or(event, "seconds", kNotANumber);
  return proof;
}

std::string proof_text(const GrowthProof& proof) {
  if (std::isnan(proof.max_difference)) {
    return "not told";
  }
  const std::string of =
      std::isnan(proof.values) ? "the probe's logits" : count_text(proof.values) + " probe logits";
  if (proof.is_exact()) {
    return "no difference in " + of;
  }
  if (proof.differing > 0) {
    return fmt::format("{} of {} differ, by at most {:.3g}",
                       count_text(proof.differing),
                       of,
                       proof.max_difference);
  }
  return fmt::format("largest difference {:.3g} in {}", proof.max_difference, of);
}

std::string headline(const RunRecord& run) {
  double tokens = 0;
  double seconds = 0;
  dim_t last_step = 0;
  for (const PhaseRecord& phase : run.phases) {
    tokens += phase.tokens;
    seconds += phase.seconds;
    last_step = std::max(last_step, phase.last_step);
  }
  const bool all_finished =
      !run.phases.empty() && std::ranges::all_of(run.phases, &PhaseRecord::finished);
  const auto tile = [](const std::string& value, std::string_view name) {
    return fmt::format("<div class=\"tile\"><b>{}</b>{}</div>", value, name);
  };
  std::string out =
      fmt::format("<header><p class=\"brand\">Cambium</p><h1>{}</h1><div class=\"tiles\">",
                  escape_html(run.name));
  out += tile(all_finished ? "finished" : "unfinished", "state");
  out += tile(count_text(static_cast<double>(last_step)), "last step");
  out += tile(large_text(tokens), "tokens");
  out += tile(seconds_text(seconds), "in training steps");
  out += tile(count_text(static_cast<double>(run.growths.size())),
              run.growths.size() == 1 ? "growth step" : "growth steps");
  out +=
      tile(count_text(static_cast<double>(run.attempts)), run.attempts == 1 ? "start" : "starts");
  out += "</div>";
  if (run.bad_lines > 0) {
    out += fmt::format(
        "<p class=\"warning\">Lines or files that are no JSON and were left out: {}.</p>",
        run.bad_lines);
  }
  return out + "</header>\n";
}

std::string phases_section(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  for (const PhaseRecord& phase : run.phases) {
    const bool trained = phase.steps > 0;
    rows.push_back({escape_html(phase.name),
                    escape_html(phase.kind) + (phase.is_control() ? ", control" : ""),
                    trained ? fmt::format("{} – {}", phase.first_step, phase.last_step)
                            : std::string(kNothing),
                    from_to(raw_ends_of(phase.of("loss"))),
                    from_to(raw_ends_of(phase.of("validation_loss"))),
                    trained ? count_text(phase.tokens) : std::string(kNothing),
                    trained ? seconds_text(phase.seconds) : std::string(kNothing),
                    trained && phase.seconds > 0 ? count_text(phase.tokens / phase.seconds)
                                                 : std::string(kNothing),
                    phase.finished ? "finished" : "unfinished"});
  }
  if (rows.empty()) {
    return {};
  }
  return "<section><h2>Phases</h2>" +
         table({{"phase", false},
                {"kind", false},
                {"steps"},
                {"loss, first → last step"},
                {"validation loss"},
                {"tokens"},
                {"time"},
                {"tokens/s"},
                {"state", false}},
               rows) +
         "</section>\n";
}

std::string growth_section(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  for (const json& event : run.growths) {
    const GrowthProof proof = growth_proof(event);
    std::string operations;
    for (const std::string& operation : proof.operations) {
      operations += fmt::format("<div><code>{}</code></div>", escape_html(operation));
    }
    const bool exact = proof.is_exact();
    std::string verdict =
        fmt::format("<span class=\"{}\">{}</span>", exact ? "good" : "", proof_text(proof));
    rows.push_back({escape_html(proof.phase),
                    fmt::format("{}", proof.step),
                    operations.empty() ? std::string(kNothing) : operations,
                    verdict,
                    std::isnan(proof.parameters_after)
                        ? std::string(kNothing)
                        : fmt::format("{} → <b>{}</b>",
                                      large_text(proof.parameters_before),
                                      large_text(proof.parameters_after)),
                    std::isnan(proof.nodes_recomputed)
                        ? std::string(kNothing)
                        : count_text(proof.nodes_recomputed) +
                              (std::isnan(proof.nodes) ? "" : " of " + count_text(proof.nodes)),
                    or_nothing(proof.bytes_allocated, bytes_text),
                    or_nothing(proof.bytes_moved, bytes_text),
                    or_nothing(proof.seconds, seconds_text),
                    proof.committed ? "committed" : "rolled back"});
  }
  if (rows.empty()) {
    return {};
  }
  return "<section><h2>Growth</h2>" +
         table({{"phase", false},
                {"after step"},
                {"operations", false, true},
                {"proof: old network against new", false, true},
                {"parameters"},
                {"plan nodes recomputed"},
                {"allocated"},
                {"moved"},
                {"pause"},
                {"outcome", false}},
               rows) +
         "</section>\n";
}

std::string accuracy_table(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  bool has_precision = false;  // the hidden labels of unlabelled texts are known now and then only
  for (const PhaseRecord& phase : run.phases) {
    const Ends accuracy = ends_of(phase.of("accuracy"));
    if (std::isnan(accuracy.last)) {
      continue;
    }
    const PhaseRecord* control =
        phase.kind == "mtssl" && !phase.is_control() ? run.control_of(phase) : nullptr;
    const double other = control == nullptr ? kNotANumber : ends_of(control->of("accuracy")).last;
    const double precision = ends_of(phase.of("pseudo_label_precision")).last;
    has_precision = has_precision || !std::isnan(precision);
    rows.push_back(
        {escape_html(phase.name),
         phase.is_control() ? "supervised control"
                            : escape_html(phase.kind == "mtssl" ? "semi-supervised" : phase.kind),
         "<b>" + percent_text(accuracy.last) + "</b>",
         std::isnan(other) ? std::string(kNothing)
                           : fmt::format("{:+.2f} points", 100 * (accuracy.last - other)),
         phase.examples > 0 ? count_text(phase.examples) : std::string(kNothing),
         or_nothing(ends_of(phase.of("threshold")).last,
                    [](double v) { return fmt::format("{:.3f}", v); }),
         or_nothing(ends_of(phase.of("coverage")).last, percent_text),
         or_nothing(precision, percent_text)});
  }
  if (rows.empty()) {
    return {};
  }
  std::vector<Column> columns = {{"phase", false},
                                 {"what", false},
                                 {"held-out accuracy"},
                                 {"against its control"},
                                 {"examples"},
                                 {"last threshold"},
                                 {"last coverage"},
                                 {"last precision"}};
  if (!has_precision) {
    columns.pop_back();
    for (std::vector<std::string>& row : rows) {
      row.pop_back();
    }
  }
  return table(columns, rows);
}

std::string events_section(const RunRecord& run) {
  const std::set<std::string> told_elsewhere = {
      "phase_started", "phase_finished", "growth", "checkpoint"};
  const std::set<std::string> own_columns = {"time", "attempt", "event", "step"};
  std::vector<std::vector<std::string>> rows;
  for (const json& event : run.events) {
    const std::string name = text_or(event, "event", "");
    if (told_elsewhere.contains(name)) {
      continue;
    }
    std::string details;
    for (const auto& [key, value] : event.items()) {
      const bool says_nothing =
          value == "" || value.is_null() || (key == "lines_cut" && value == 0);
      if (!own_columns.contains(key) && !says_nothing) {
        details += fmt::format("{}<span class=\"key\">{}</span> {}",
                               details.empty() ? "" : ", ",
                               escape_html(words(key)),
                               cell_of(key, value));
      }
    }
    rows.push_back({escape_html(text_or(event, "time", "")),
                    fmt::format("{:.0f}", number_or(event, "attempt", 1)),
                    escape_html(words(name)),
                    event.contains("step") ? cell_of("step", event["step"]) : std::string(kNothing),
                    details});
  }
  std::string out;
  const std::vector<json> checkpoints = run.events_named("checkpoint");
  if (!checkpoints.empty()) {
    double bytes = 0;
    double seconds = 0;
    for (const json& checkpoint : checkpoints) {
      bytes += number_or(checkpoint, "bytes", 0);
      seconds += number_or(checkpoint, "seconds", 0);
    }
    out += fmt::format("<p>{} checkpoints written, {} in {}{}.</p>",
                       checkpoints.size(),
                       bytes_text(bytes),
                       seconds_text(seconds),
                       run.latest_checkpoint.empty()
                           ? ""
                           : "; latest: <code>" + escape_html(run.latest_checkpoint) + "</code>");
  }
  if (!rows.empty()) {
    out += table(
        {{"time", false}, {"attempt"}, {"event", false}, {"step"}, {"details", false, true}}, rows);
  }
  return out.empty() ? out
                     : "<section><h2>Checkpoints, restarts, signals</h2>" + out + "</section>\n";
}

std::string ranks_section(const RunRecord& run) {
  if (!run.ranks.is_array() || run.ranks.empty()) {
    return {};
  }
  const std::vector<std::string> place = {"rank", "host", "stage", "tensor", "data"};
  const std::vector<std::string> known = {"product_flops",
                                          "attention_flops",
                                          "parameter_bytes",
                                          "gradient_bytes",
                                          "optimizer_bytes",
                                          "activation_bytes"};
  std::vector<std::string> work;
  std::vector<std::string> messages;
  const auto add = [](std::vector<std::string>& keys, const std::string& key) {
    if (std::ranges::find(keys, key) == keys.end()) {
      keys.push_back(key);
    }
  };
  for (const json& rank : run.ranks) {
    for (const std::string& key : known) {
      if (rank.is_object() && rank.contains(key)) {
        add(work, key);
      }
    }
    for (const auto& [key, value] : rank.items()) {
      if (rank.is_object() && std::ranges::find(place, key) == place.end()) {
        add(key.starts_with("bytes_sent") ? messages : work, key);
      }
    }
  }
  std::string out = ranks_table(run.ranks, place, work);
  if (!messages.empty()) {
    out += "<h3>Messages</h3>" + ranks_table(run.ranks, place, messages);
  }
  return "<section><h2>Ranks</h2>" + out + "</section>\n";
}

std::string config_section(const RunRecord& run) {
  if (run.config.empty()) {
    return {};
  }
  return "<section><details><summary>Config as resolved</summary><pre>" + escape_html(run.config) +
         "</pre></details></section>\n";
}

}  // namespace cambium::metrics
