// metrics/run_record.hpp — a run directory read back: phases with their series, events, files
// written whole. Internal to report and summary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::metrics {

inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

struct Point {
  double x = 0;
  double y = 0;  // NaN where the run had none
};

using Series = std::vector<Point>;

struct PhaseRecord {
  std::string name;
  std::string kind;
  std::string threshold_kind;  // mtssl: learned | fixed | off
  std::string start_from;
  std::optional<dim_t> after_step;  // the last update before the phase, of phase_started
  bool finished = false;
  dim_t first_step = 0;  // of its training rows; 0: none
  dim_t last_step = 0;
  dim_t steps = 0;
  double tokens = 0;
  double seconds = 0;
  double examples = 0;                   // behind the last accuracy
  std::map<std::string, Series> series;  // numeric fields of its rows, by step

  // The series of a field; empty when there is none.
  [[nodiscard]] const Series& of(const std::string& field) const;
  // A semi-supervised phase without pseudo-labels: what the others are measured against.
  [[nodiscard]] bool is_control() const;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;
  std::vector<PhaseRecord> phases;      // in the order in which they started
  std::vector<nlohmann::json> events;   // all, in order
  std::vector<nlohmann::json> growths;  // one per (phase, step): the last
  nlohmann::json timeline;              // null when absent
  nlohmann::json ranks;
  std::string config;
  std::string latest_checkpoint;  // name of the folder that `latest` points to
  dim_t attempts = 1;
  dim_t bad_lines = 0;  // lines that are no JSON object

  // The control that a semi-supervised phase is compared with: of the same start, or the only one.
  [[nodiscard]] const PhaseRecord* control_of(const PhaseRecord& phase) const;
  [[nodiscard]] std::vector<nlohmann::json> events_named(const std::string& event) const;
};

// Throws Error(bad_input) when `run` is not a folder or holds neither metrics.jsonl nor
// events.jsonl.
[[nodiscard]] RunRecord read_run(const std::filesystem::path& run);

// Fields of an event, with what to take when absent, null or of another type.
[[nodiscard]] double number_or(const nlohmann::json& object, const char* key, double otherwise);
[[nodiscard]] std::string text_or(const nlohmann::json& object,
                                  const char* key,
                                  const std::string& otherwise);

}  // namespace cambium::metrics
