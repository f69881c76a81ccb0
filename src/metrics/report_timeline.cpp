// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "metrics/report_parts.hpp"
#include "metrics/svg_chart.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

using nlohmann::json;

constexpr double kWidth = 960;
constexpr double kLeft = 150;
constexpr double kRow = 24;
constexpr double kTop = 8;
constexpr std::size_t kMostRanks = 64;  // a page, not a wall

struct Act {
  const char* style;
  const char* name;
};

Act act_of(const std::string& kind) {
  if (kind == "forward") {
    return {"act-f", "forward"};
  }
  if (kind == "backward_input") {
    return {"act-b", "backward, input"};
  }
  if (kind == "backward_weight") {
    return {"act-w", "backward, weight"};
  }
  return {"act-c", "send and receive"};
}

bool is_compute(const std::string& kind) {
  return std::string_view(act_of(kind).style) != "act-c";
}

std::string draw_action(const json& action, double x0, double per_us, double top) {
  const std::string kind = text_or(action, "kind", "?");
  const double begin = number_or(action, "begin_us", 0);
  const double end = number_or(action, "end_us", begin);
  const Act act = act_of(kind);
  const bool computes = is_compute(kind);
  const double inset = computes ? 3 : 9;
  const double width = std::max(0.5, (end - begin) * per_us);
  const double x = x0 + begin * per_us;
  const auto micro_batch = static_cast<dim_t>(number_or(action, "micro_batch", 0));
  const auto chunk = static_cast<dim_t>(number_or(action, "chunk", 0));
  const std::string where = chunk > 0 ? fmt::format(", chunk {}", chunk) : "";
  std::string out = fmt::format(
      R"(<rect class="{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}"><title>{} of micro-batch {}{}: {:.2f} ms, from {:.2f}</title></rect>)",
      act.style,
      x,
      top + inset,
      width,
      kRow - 2 * inset,
      escape_html(kind),
      micro_batch,
      where,
      (end - begin) / 1e3,
      begin / 1e3);
  if (computes && width > 14) {
    out += fmt::format(
        R"(<text class="act-name" x="{:.2f}" y="{:.1f}" text-anchor="middle">{}</text>)",
        x + width / 2,
        top + kRow / 2 + 4,
        micro_batch);
  }
  return out;
}

std::string draw_time_axis(double last_us, double per_us, double floor) {
  std::string out;
  for (const double tick : nice_ticks(0, last_us / 1e3, 8)) {
    const double x = kLeft + tick * 1e3 * per_us;
    out += fmt::format(
        R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/><text x="{0:.1f}" y="{3}" text-anchor="middle">{4:g}</text>)",
        x,
        kTop,
        floor,
        floor + 16,
        tick);
  }
  out +=
      fmt::format(R"(<text class="axis-name" x="{}" y="{}" text-anchor="end">milliseconds</text>)",
                  kWidth - 4,
                  floor + 32);
  return out;
}

std::string legend() {
  std::string out = "<p class=\"legend\">";
  for (const char* kind : {"forward", "backward_input", "backward_weight", "send"}) {
    const Act act = act_of(kind);
    out += fmt::format(R"(<span><i class="{}"></i>{}</span>)", act.style, act.name);
  }
  return out + "</p>";
}

// How long the traced step is, and how much of it ranks compute.
struct Load {
  double last_us = 0;
  double computing_us = 0;
};

Load load_of(const json& ranks) {
  Load load;
  for (const json& rank : ranks) {
    for (const json& action : rank.value("actions", json::array())) {
      const double end = number_or(action, "end_us", 0);
      load.last_us = std::max(load.last_us, end);
      if (is_compute(text_or(action, "kind", ""))) {
        load.computing_us += end - number_or(action, "begin_us", end);
      }
    }
  }
  return load;
}

std::string draw_rank(const json& rank, double number, double per_us) {
  const double top = kTop + kRow * number;
  std::string out = fmt::format(
      R"(<text x="{}" y="{:.1f}" text-anchor="end">rank {:.0f}: stage {:.0f}, t {:.0f}, d {:.0f}</text>)",
      kLeft - 8,
      top + kRow / 2 + 4,
      number_or(rank, "rank", number),
      number_or(rank, "stage", 0),
      number_or(rank, "tensor", 0),
      number_or(rank, "data", 0));
  for (const json& action : rank.value("actions", json::array())) {
    out += draw_action(action, kLeft, per_us, top);
  }
  return out;
}

}  // namespace

std::string timeline_section(const RunRecord& run) {
  if (!run.timeline.is_object() || !run.timeline.contains("ranks") ||
      !run.timeline["ranks"].is_array()) {
    return {};
  }
  const json& ranks = run.timeline["ranks"];
  const std::size_t shown = std::min(ranks.size(), kMostRanks);
  const Load load = load_of(ranks);
  if (!(load.last_us > 0)) {
    return {};
  }
  const double per_us = (kWidth - kLeft - 12) / load.last_us;
  const double floor = kTop + kRow * static_cast<double>(shown);
  std::string svg = fmt::format(
      R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="pipeline timeline">)",
      kWidth,
      floor + 40);
  svg += draw_time_axis(load.last_us, per_us, floor);
  for (std::size_t r = 0; r < shown; ++r) {
    svg += draw_rank(ranks[r], static_cast<double>(r), per_us);
  }
  svg += "</svg>\n";
  const std::string rest =
      shown < ranks.size()
          ? fmt::format(" The first {} of {} ranks are drawn.", shown, ranks.size())
          : "";
  return fmt::format(
      "<section><h2>Pipeline timeline</h2><figure>{}{}<figcaption>Step {:.0f}, one row per rank; "
      "t and d are its "
      "places in tensor and data, numbers are micro-batches. Ranks compute in {} of the {} shown; "
      "the rest is the bubble and messages.{}"
      "</figcaption></figure></section>\n",
      legend(),
      svg,
      number_or(run.timeline, "step", 0),
      percent_text(load.computing_us / (load.last_us * static_cast<double>(ranks.size()))),
      seconds_text(load.last_us / 1e6),
      rest);
}

}  // namespace cambium::metrics
