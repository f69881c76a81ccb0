// metrics/report_parts.hpp — the sections of the report; each is empty when the run has nothing for
// it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "metrics/run_record.hpp"

namespace cambium::metrics {

// Charts: report_charts.cpp.
[[nodiscard]] std::string loss_section(const RunRecord& run);
[[nodiscard]] std::string semi_supervised_section(const RunRecord& run);
[[nodiscard]] std::string more_curves_section(const RunRecord& run);

// Timeline of the traced step: report_timeline.cpp.
[[nodiscard]] std::string timeline_section(const RunRecord& run);

// Tables: report_tables.cpp.
[[nodiscard]] std::string headline(const RunRecord& run);
[[nodiscard]] std::string phases_section(const RunRecord& run);
[[nodiscard]] std::string growth_section(const RunRecord& run);
[[nodiscard]] std::string accuracy_table(const RunRecord& run);
[[nodiscard]] std::string events_section(const RunRecord& run);
[[nodiscard]] std::string ranks_section(const RunRecord& run);
[[nodiscard]] std::string config_section(const RunRecord& run);

// First and last value of a series; `any` is false when it is empty.
struct Ends {
  bool any = false;
  bool is_one = false;  // first and last are the same entry
  double first = kNotANumber;
  double last = kNotANumber;
};

// As they are, NaN included: a loss that ended in NaN must be told so.
[[nodiscard]] Ends raw_ends_of(const Series& series);

// Of the finite values only: for what a step may lack, such as the precision of no pseudo-labels.
[[nodiscard]] Ends ends_of(const Series& series);

// What a growth event says of itself, for table and summary.
struct GrowthProof {
  std::string phase;
  dim_t step = 0;
  std::vector<std::string> operations;
  bool committed = true;
  double max_difference = kNotANumber;  // NaN: not told
  double values = kNotANumber;          // logits compared
  double differing = kNotANumber;       // … of which so many differ in a bit
  double parameters_before = kNotANumber;
  double parameters_after = kNotANumber;
  double nodes = kNotANumber;
  double nodes_recomputed = kNotANumber;
  double bytes_allocated = kNotANumber;
  double bytes_moved = kNotANumber;
  double seconds = kNotANumber;

  // Told, and not a bit differs.
  [[nodiscard]] bool is_exact() const {
    return max_difference == 0 && !(differing > 0);
  }
};

[[nodiscard]] GrowthProof growth_proof(const nlohmann::json& event);

// "not a bit of 262,144 logits differs", "largest difference 1.2e-07", "not told".
[[nodiscard]] std::string proof_text(const GrowthProof& proof);

}  // namespace cambium::metrics
