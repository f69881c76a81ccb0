// SPDX-License-Identifier: Apache-2.0
#include "metrics/svg_chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 40;     // band names and mark labels stand here
constexpr double kBottom = 44;  // tick labels and the axis' name
constexpr std::size_t kMostPoints = 1200;

struct Span {
  double low = INFINITY;
  double high = -INFINITY;

  void take(double value) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }

  // Never empty, so that one point has a place.
  void widen() {
    if (high - low < 1e-12 * std::max(1.0, std::abs(low))) {
      low -= 0.5;
      high += 0.5;
    }
  }
};

struct Frame {
  Span x;
  Span y;
  double height = 0;

  [[nodiscard]] double px(double value) const {
    return kLeft + (value - x.low) / (x.high - x.low) * (kWidth - kLeft - kRight);
  }

  [[nodiscard]] double py(double value) const {
    const double clamped = std::clamp(value, y.low, y.high);
    return height - kBottom - (clamped - y.low) / (y.high - y.low) * (height - kTop - kBottom);
  }
};

Frame make_frame(const Chart& chart) {
  Frame frame{.height = chart.height};
  for (const ChartSeries& series : chart.series) {
    for (const Point& point : series.points) {
      if (std::isfinite(point.y)) {
        frame.x.take(point.x);
        frame.y.take(point.y);
      }
    }
  }
  for (const ChartBand& band : chart.bands) {
    frame.x.take(band.begin);
    frame.x.take(band.end);
  }
  frame.x.widen();
  frame.y.widen();
  const double margin = 0.06 * (frame.y.high - frame.y.low);
  frame.y.low = chart.y_min.value_or(frame.y.low - margin);
  frame.y.high = chart.y_max.value_or(frame.y.high + margin);
  return frame;
}

// Long series keep the lowest and the highest point of each stretch: no spike is lost.
Series thin_out(const Series& points) {
  if (points.size() <= kMostPoints) {
    return points;
  }
  Series kept;
  const std::size_t stretches = kMostPoints / 2;
  for (std::size_t s = 0; s < stretches; ++s) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * s / stretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>(points.size() * (s + 1) / stretches);
    const auto gap = std::find_if(begin, end, [](const Point& p) { return !std::isfinite(p.y); });
    if (gap != end) {
      kept.push_back(*gap);
      continue;
    }
    auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (high < low) {
      std::swap(low, high);
    }
    kept.push_back(*low);
    if (high != low) {
      kept.push_back(*high);
    }
  }
  return kept;
}

std::string tick_text(double value, double step) {
  if (step >= 1 && std::abs(value) >= 10000) {
    return count_text(value);
  }
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 8);
  const bool half =
      std::abs(step * std::pow(10, decimals) - std::round(step * std::pow(10, decimals))) > 1e-6;
  return fmt::format("{:.{}f}", value, decimals + (half ? 1 : 0));
}

std::string draw_bands(const Chart& chart, const Frame& frame) {
  std::string out;
  const double floor = chart.height - kBottom;
  for (std::size_t i = 0; i < chart.bands.size(); ++i) {
    const ChartBand& band = chart.bands[i];
    const double left = frame.px(band.begin);
    const double width = std::max(1.0, frame.px(band.end) - left);
    out += fmt::format(
        R"(<rect class="band-{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>)",
        i % 2,
        left,
        kTop,
        width,
        floor - kTop,
        escape_html(band.label));
    if (width > 6.2 * static_cast<double>(band.label.size())) {
      out +=
          fmt::format(R"(<text class="band-name" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)",
                      left + width / 2,
                      kTop - 6,
                      escape_html(band.label));
    }
  }
  return out;
}

std::string draw_axes(const Chart& chart, const Frame& frame) {
  std::string out;
  const double floor = chart.height - kBottom;
  const std::vector<double> ys = nice_ticks(frame.y.low, frame.y.high, 5);
  for (const double y : ys) {
    out += fmt::format(
        R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/><text x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>)",
        kLeft,
        kWidth - kRight,
        frame.py(y),
        kLeft - 8,
        frame.py(y) + 4,
        tick_text(y, ys.size() > 1 ? ys[1] - ys[0] : 1));
  }
  const std::vector<double> xs = nice_ticks(frame.x.low, frame.x.high, 8);
  for (const double x : xs) {
    out += fmt::format(
        R"(<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/><text x="{0:.1f}" y="{3}" text-anchor="middle">{4}</text>)",
        frame.px(x),
        floor,
        floor + 5,
        floor + 19,
        tick_text(x, xs.size() > 1 ? xs[1] - xs[0] : 1));
  }
  out += fmt::format(
      R"(<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>)", kLeft, kWidth - kRight, floor);
  out += fmt::format(R"(<text class="axis-name" x="{}" y="{}" text-anchor="end">{}</text>)",
                     kWidth - kRight,
                     chart.height - 8,
                     escape_html(chart.x_label));
  out += fmt::format(
      R"(<text class="axis-name" x="{}" y="16">{}</text>)", 4, escape_html(chart.y_label));
  return out;
}

// Labels of neighbouring marks take turns on two lines.
std::string draw_marks(const Chart& chart, const Frame& frame) {
  std::string out;
  for (std::size_t i = 0; i < chart.marks.size(); ++i) {
    const ChartMark& mark = chart.marks[i];
    const double x = frame.px(mark.x);
    const bool at_right = x > kWidth * 0.7;
    out += fmt::format(
        R"(<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/><text class="mark-name" x="{3:.1f}" y="{4}" text-anchor="{5}">{6}</text>)",
        x,
        kTop - 4,
        chart.height - kBottom,
        x + (at_right ? -5 : 5),
        kTop + 8 + 14 * static_cast<double>(i % 2),
        at_right ? "end" : "start",
        escape_html(mark.label));
  }
  return out;
}

std::string draw_series(const ChartSeries& series, const Frame& frame) {
  std::string path;
  std::string dots;
  bool pen_down = false;
  for (const Point& point : thin_out(series.points)) {
    if (!std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    path +=
        fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', frame.px(point.x), frame.py(point.y));
    pen_down = true;
    if (series.dots) {
      dots += fmt::format(
          R"(<circle class="dot series-{}" cx="{:.1f}" cy="{:.1f}" r="3.5"><title>{} at {:.0f}: {:.6g}</title></circle>)",
          series.colour,
          frame.px(point.x),
          frame.py(point.y),
          escape_html(series.name),
          point.x,
          point.y);
    }
  }
  return fmt::format(R"(<path class="line series-{}" d="{}"/>)", series.colour, path) + dots;
}

std::string draw_legend(const Chart& chart) {
  std::string out;
  double right = kWidth - kRight;
  for (auto series = chart.series.rbegin(); series != chart.series.rend(); ++series) {
    const double width = 7.0 * static_cast<double>(series->name.size());
    right -= width;
    out += fmt::format(R"(<text x="{:.1f}" y="16">{}</text>)", right, escape_html(series->name));
    out += fmt::format(R"(<line class="line series-{}" x1="{:.1f}" x2="{:.1f}" y1="12" y2="12"/>)",
                       series->colour,
                       right - 24,
                       right - 6);
    right -= 42;
  }
  return out;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
  const double rough = (high - low) / count;
  if (!(rough > 0) || !std::isfinite(rough)) {
    return {low};
  }
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push_back(i * step + 0.0);  // no "-0"
  }
  return ticks;
}

std::string render_chart(const Chart& chart) {
  Chart drawn = chart;
  std::erase_if(drawn.series, [](const ChartSeries& series) {
    return std::ranges::none_of(series.points, [](const Point& p) { return std::isfinite(p.y); });
  });
  if (drawn.series.empty()) {
    return {};
  }
  const Frame frame = make_frame(drawn);
  std::string out =
      fmt::format(R"(<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">)",
                  kWidth,
                  drawn.height,
                  escape_html(drawn.title));
  out += draw_bands(drawn, frame);
  out += draw_axes(drawn, frame);
  for (const ChartSeries& series : drawn.series) {
    out += draw_series(series, frame);
  }
  out += draw_marks(drawn, frame);
  out += draw_legend(drawn);
  return out + "</svg>\n";
}

}  // namespace cambium::metrics
