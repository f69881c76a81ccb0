// metrics/writers.hpp — the line files of a run directory: metrics.jsonl, events.jsonl,
// journal.jsonl. One rank (0) owns them. Each line is one write(2) and one JSON object; formats:
// src/metrics/README.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "metrics/fields.hpp"

namespace cambium::metrics {

// metrics.jsonl: one object a step.
class MetricsWriter {
 public:
  // Appends to RUN/metrics.jsonl. A last line that a kill left without its end is moved to
  // RUN/attempt-N/metrics.jsonl. Throws Error(storage).
  MetricsWriter(std::filesystem::path run, int attempt);

  // {"attempt":N, …fields…}. Throws Error(storage).
  void write(const Fields& fields);

  // A restart from the checkpoint of `step`: lines behind it (and lines that are no JSON) move to
  // ATTEMPT_FOLDER/metrics.jsonl, which is written before metrics.jsonl is replaced, so that a kill
  // loses nothing. Of the phases that start anew, rows at `step` itself go too: what they recorded
  // before their first update comes again. Returns the number of lines moved. Throws
  // Error(storage).
  dim_t cut_after(dim_t step,
                  const std::filesystem::path& attempt_folder,
                  const std::set<std::string>& starting = {});

 private:
  std::filesystem::path path_;
  int attempt_;
};

// events.jsonl: what happened, in the order in which it happened, over all attempts; never cut.
class EventWriter {
 public:
  EventWriter(std::filesystem::path run, int attempt);

  // {"time":"2025-01-31T12:00:00.123Z","attempt":N,"event":EVENT, …fields…}. Throws Error(storage).
  void write(std::string_view event, const Fields& fields = {});

 private:
  std::filesystem::path path_;
  int attempt_;
};

// A decision that depends on time, load or an outside file, with the step at which it takes effect.
struct JournalEntry {
  dim_t step = 0;
  std::string decision;
  std::string json;  // the whole line

  // A field of the line. Throws Error(bad_input) when it is absent or of another type.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] dim_t integer(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;
};

// journal.jsonl: written and fsynced before the decision takes effect. A line without its end was
// never decided.
class Journal {
 public:
  // Cuts off a last line without its end. Throws Error(storage).
  Journal(std::filesystem::path run, int attempt);

  // {"attempt":N,"step":S,"decision":DECISION, …fields…}; on the disk when this returns. Throws
  // Error(storage).
  void write(dim_t step, std::string_view decision, const Fields& fields = {});

  // All decisions of RUN/journal.jsonl in order; none when there is no file. A last line without
  // its end is not one. Throws Error(bad_input) with file and line for any other line that is not a
  // decision.
  [[nodiscard]] static std::vector<JournalEntry> read(const std::filesystem::path& run);

 private:
  std::filesystem::path path_;
  int attempt_;
};

// RUN/attempt-N, created. Throws Error(storage).
std::filesystem::path make_attempt_folder(const std::filesystem::path& run, int attempt);

// The number of the attempt that starts now: one more than the highest attempt-N folder of the run.
[[nodiscard]] int next_attempt(const std::filesystem::path& run);

// UTC with milliseconds: 2025-01-31T12:00:00.123Z.
[[nodiscard]] std::string utc_now();

}  // namespace cambium::metrics
