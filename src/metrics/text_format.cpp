// SPDX-License-Identifier: Apache-2.0
#include "metrics/text_format.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>

namespace cambium::metrics {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters have no place in a page.
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

std::string count_text(double value) {
  const std::string digits = fmt::format("{:.0f}", std::abs(value));
  std::string out(value < 0 && digits != "0" ? "-" : "");
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      out += ',';
    }
    out += digits[i];
  }
  return out;
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string large_text(double value) {
  constexpr std::array<const char*, 6> kUnits = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  while (std::abs(value) >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}{}", value, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 1) {
    return fmt::format("{:.0f} ms", seconds * 1e3);
  }
  if (seconds < 60) {
    return fmt::format("{:.1f} s", seconds);
  }
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string loss_text(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "not finite";
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f} %", 100 * share) : "not finite";
}

}  // namespace cambium::metrics
