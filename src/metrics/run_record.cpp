// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_record.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "metrics/lines.hpp"

namespace cambium::metrics {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<json> read_rows(const fs::path& path, dim_t& bad_lines) {
  std::vector<json> rows;
  for (const std::string& line : read_lines(path)) {
    json row = json::parse(line, nullptr, false);
    if (row.is_object()) {
      rows.push_back(std::move(row));
    } else {
      ++bad_lines;
    }
  }
  return rows;
}

json read_json(const fs::path& path, dim_t& bad_files) {
  if (!fs::exists(path)) {
    return nullptr;
  }
  json value = json::parse(read_file(path), nullptr, false);
  if (value.is_discarded()) {
    ++bad_files;
    return nullptr;
  }
  return value;
}

PhaseRecord& phase_named(RunRecord& run, const std::string& name) {
  const auto found = std::ranges::find(run.phases, name, &PhaseRecord::name);
  if (found != run.phases.end()) {
    return *found;
  }
  run.phases.push_back({.name = name});
  return run.phases.back();
}

void take_text(std::string& to, const json& from, const char* key) {
  to = text_or(from, key, to);
}

void take_event(RunRecord& run, const json& event) {
  run.attempts = std::max(run.attempts, static_cast<dim_t>(number_or(event, "attempt", 1)));
  const std::string name = text_or(event, "event", "");
  const std::string phase = text_or(event, "phase", "");
  if ((name == "phase_started" || name == "phase_finished") && !phase.empty()) {
    PhaseRecord& record = phase_named(run, phase);
    take_text(record.kind, event, "kind");
    take_text(record.threshold_kind, event, "threshold");
    take_text(record.start_from, event, "start_from");
    if (name == "phase_started" && !record.after_step) {
      record.after_step = static_cast<dim_t>(number_or(event, "step", 0));
    }
    record.finished = record.finished || name == "phase_finished";
  }
  if (name == "growth") {
    // A restart from before a growth repeats it: one surgery, told once.
    const auto same = [&](const json& other) {
      return text_or(other, "phase", "") == phase &&
             number_or(other, "step", 0) == number_or(event, "step", 0);
    };
    std::erase_if(run.growths, same);
    run.growths.push_back(event);
  }
}

void take_row(RunRecord& run, const json& row) {
  run.attempts = std::max(run.attempts, static_cast<dim_t>(number_or(row, "attempt", 1)));
  const std::string phase = text_or(row, "phase", "");
  if (phase.empty() || !row.contains("step") || !row["step"].is_number()) {
    return;
  }
  const double step = row["step"].get<double>();
  PhaseRecord& record = phase_named(run, phase);
  take_text(record.kind, row, "kind");
  for (const auto& [key, value] : row.items()) {
    if (key != "step" && key != "attempt" && (value.is_number() || value.is_null())) {
      record.series[key].push_back({step, value.is_number() ? value.get<double>() : kNotANumber});
    }
  }
  record.examples = number_or(row, "examples", record.examples);
  if (row.contains("loss")) {
    const auto whole = static_cast<dim_t>(step);
    record.first_step = record.steps == 0 ? whole : std::min(record.first_step, whole);
    record.last_step = std::max(record.last_step, whole);
    ++record.steps;
    record.tokens += number_or(row, "tokens", 0);
    record.seconds += number_or(row, "seconds", 0);
  }
}

std::string find_latest(const fs::path& run) {
  std::error_code error;
  const fs::path folder = run / "checkpoints";
  for (const fs::path& link : {folder / "latest", run / "latest"}) {
    const fs::path target = fs::read_symlink(link, error);
    if (!error) {
      return target.filename().string();
    }
  }
  return {};
}

}  // namespace

const Series& PhaseRecord::of(const std::string& field) const {
  static const Series none;
  const auto found = series.find(field);
  return found == series.end() ? none : found->second;
}

bool PhaseRecord::is_control() const {
  if (kind != "mtssl") {
    return false;
  }
  return threshold_kind.empty() ? steps > 0 && of("threshold").empty() && of("tau").empty()
                                : threshold_kind == "off";
}

const PhaseRecord* RunRecord::control_of(const PhaseRecord& phase) const {
  const PhaseRecord* only = nullptr;
  dim_t controls = 0;
  for (const PhaseRecord& other : phases) {
    if (!other.is_control()) {
      continue;
    }
    if (!phase.start_from.empty() && other.start_from == phase.start_from) {
      return &other;
    }
    only = &other;
    ++controls;
  }
  return controls == 1 ? only : nullptr;
}

std::vector<json> RunRecord::events_named(const std::string& event) const {
  std::vector<json> found;
  for (const json& candidate : events) {
    if (text_or(candidate, "event", "") == event) {
      found.push_back(candidate);
    }
  }
  return found;
}

RunRecord read_run(const fs::path& folder) {
  const bool has_rows = fs::exists(folder / "metrics.jsonl");
  const bool has_events = fs::exists(folder / "events.jsonl");
  if (!fs::is_directory(folder) || (!has_rows && !has_events)) {
    throw Error(Code::bad_input,
                folder.string() +
                    ": expected a run directory with metrics.jsonl or events.jsonl; "
                    "its name is run.directory in the config");
  }
  RunRecord run{.folder = folder};
  const fs::path absolute = fs::weakly_canonical(folder);
  run.name = absolute.filename().string();
  run.events = read_rows(folder / "events.jsonl", run.bad_lines);
  for (const json& event : run.events) {
    take_event(run, event);
  }
  for (const json& row : read_rows(folder / "metrics.jsonl", run.bad_lines)) {
    take_row(run, row);
  }
  run.timeline = read_json(folder / "timeline.json", run.bad_lines);
  run.ranks = read_json(folder / "ranks.json", run.bad_lines);
  if (fs::exists(folder / "config.yaml")) {
    run.config = read_file(folder / "config.yaml");
  }
  run.latest_checkpoint = find_latest(folder);
  return run;
}

double number_or(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_or(const json& object, const char* key, const std::string& otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

}  // namespace cambium::metrics
