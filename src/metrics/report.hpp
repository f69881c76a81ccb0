// metrics/report.hpp — what a run did, for people: one HTML page and a summary in plain text.
// Every number comes from the files of the run directory. What a run does not have is left out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace cambium::metrics {

// One self-contained page: style and pictures are inside, nothing is fetched, light and dark. Lines
// of metrics.jsonl that are no JSON (a kill while writing) are skipped and counted on the page.
// Throws Error(bad_input) when `run` is not a folder or has neither metrics.jsonl nor events.jsonl.
[[nodiscard]] std::string make_report(const std::filesystem::path& run);

// The summary printed at the end: loss before and after each phase, the proof of growth, the
// accuracy of semi-supervised phases against their control whichever wins, where report and
// checkpoints are. Throws as make_report does.
[[nodiscard]] std::string make_summary(const std::filesystem::path& run);

}  // namespace cambium::metrics
