// SPDX-License-Identifier: Apache-2.0
#include "config/scalars.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

namespace cambium::config {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A whole double as a count; doubles are exact below 2^53 only.
std::optional<std::int64_t> whole(double value) {
  if (std::abs(value) > 0x1p53 || value != std::floor(value)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
    return std::nullopt;
  }
  if (!text.empty() && text[0] == '+') {
    text.remove_prefix(1);
    if (text.empty() || text[0] == '-' || text[0] == '+') {
      return std::nullopt;
    }
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::string_view digits = text;
  if (!digits.empty() && digits[0] == '+') {
    digits.remove_prefix(1);
  }
  const bool negative = !digits.empty() && digits[0] == '-';
  if (is_digits(digits.substr(negative ? 1 : 0))) {
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, 10);
    return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
  }
  const std::optional<double> value = parse_number(text);
  return value ? whole(*value) : std::nullopt;
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  if (!is_digits(text)) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 10);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_seconds(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':')) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  if (parts.size() == 1) {
    return parse_number(text);
  }
  if (parts.size() > 3) {
    return std::nullopt;
  }
  double seconds = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::optional<std::uint64_t> part = parse_unsigned(parts[i]);
    if (!part || (i > 0 && (*part > 59 || parts[i].size() != 2))) {
      return std::nullopt;
    }
    seconds = seconds * 60 + static_cast<double>(*part);
  }
  return seconds;
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  const std::size_t unit = text.find_first_of("KMGTPB");
  if (unit == std::string_view::npos) {
    return parse_count(text);
  }
  std::string_view name = text.substr(unit);
  double factor = 1;
  if (name[0] != 'B') {
    const bool binary = name.size() > 1 && name[1] == 'i';
    const auto power = std::string_view("KMGTP").find(name[0]) + 1;
    for (std::size_t i = 0; i < power; ++i) {
      factor *= binary ? 1024 : 1000;
    }
    name.remove_prefix(binary ? 2 : 1);
  }
  const std::optional<double> value = parse_number(text.substr(0, unit));
  if (name != "B" || !value || *value < 0) {
    return std::nullopt;
  }
  return whole(*value * factor);
}

std::string format_number(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), error == std::errc() ? end : buffer.data()};
}

}  // namespace cambium::config
