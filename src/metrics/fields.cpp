// SPDX-License-Identifier: Apache-2.0
#include "metrics/fields.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace cambium::metrics {
namespace {

std::string_view name_of_special(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  return value > 0 ? "inf" : "-inf";
}

void append_field(std::string& out, std::string_view key, std::string_view json) {
  out += out.size() > 1 ? "," : "";
  out += quote_json(key);
  out += ':';
  out += json;
}

std::string to_json(const Value::Data& data) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return std::to_string(value);
        } else if constexpr (std::is_same_v<T, double>) {
          return metrics::to_json(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return quote_json(value);
        } else if constexpr (std::is_same_v<T, RawJson>) {
          return value.text;
        } else {
          std::string list = "[";
          for (const std::string& text : value) {
            list += list.size() > 1 ? "," : "";
            list += quote_json(text);
          }
          return list + "]";
        }
      },
      data);
}

}  // namespace

std::string quote_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_json(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  char digits[40];
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 17);
  (void)error;  // 40 characters hold 17 digits, sign, point and exponent
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";  // a reader that tells integers from doubles sees a double
  }
  return text;
}

std::string to_json(const Fields& fields) {
  std::string out = "{";
  for (const auto& [key, value] : fields.list()) {
    append_field(out, key, to_json(value.data()));
    const double* number = std::get_if<double>(&value.data());
    if (number != nullptr && !std::isfinite(*number)) {
      append_field(out, key + "_text", quote_json(name_of_special(*number)));
    }
  }
  return out + "}";
}

RawJson to_json_list(const std::vector<Fields>& rows) {
  std::string out = "[";
  for (const Fields& row : rows) {
    out += out.size() > 1 ? "," : "";
    out += to_json(row);
  }
  return {out + "]"};
}

}  // namespace cambium::metrics
