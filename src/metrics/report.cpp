// SPDX-License-Identifier: Apache-2.0
#include "metrics/report.hpp"

#include "metrics/report_parts.hpp"
#include "metrics/report_style.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {

std::string make_report(const std::filesystem::path& folder) {
  const RunRecord run = read_run(folder);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
      escape_html(run.name) + " – Cambium</title><style>" + kReportStyle +
      "</style></head><body><main>\n";
  page += headline(run);
  page += phases_section(run);
  page += loss_section(run);
  page += growth_section(run);
  page += semi_supervised_section(run);
  page += timeline_section(run);
  page += events_section(run);
  page += ranks_section(run);
  page += more_curves_section(run);
  page += config_section(run);
  page +=
      "<footer>Made from metrics.jsonl, events.jsonl, timeline.json, ranks.json and config.yaml of "
      "this run.</footer>\n";
  return page + "</main></body></html>\n";
}

}  // namespace cambium::metrics
