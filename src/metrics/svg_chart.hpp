// metrics/svg_chart.hpp — a line chart as inline SVG; colours come from the page's style (series-1
// …).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "metrics/run_record.hpp"

namespace cambium::metrics {

struct ChartSeries {
  std::string name;
  int colour = 1;     // 1 … 6
  bool dots = false;  // points as well as the line: for sparse series
  Series points;      // ascending in x; a NaN breaks the line
};

// A stretch of the x axis with a name: a phase.
struct ChartBand {
  double begin = 0;
  double end = 0;
  std::string label;
};

// A vertical line with a text: a growth step.
struct ChartMark {
  double x = 0;
  std::string label;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<ChartSeries> series;
  std::vector<ChartBand> bands;
  std::vector<ChartMark> marks;
  std::optional<double> y_min;  // else from the data
  std::optional<double> y_max;
  double height = 340;
};

// Round numbers that cover [low, high] with about `count` steps, all inside; 1, 2, 2.5 or 5 times a
// power of ten apart.
[[nodiscard]] std::vector<double> nice_ticks(double low, double high, int count);

// "<svg …>…</svg>"; empty when no series has a finite point.
[[nodiscard]] std::string render_chart(const Chart& chart);

}  // namespace cambium::metrics
