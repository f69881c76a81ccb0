// SPDX-License-Identifier: Apache-2.0
#include "data/json_lines.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "data/data_file.hpp"

namespace cambium::data {
namespace {

std::optional<unsigned> hex4(std::string_view digits) {
  if (digits.size() < 4) {
    return std::nullopt;
  }
  unsigned value = 0;
  for (const char c : digits.substr(0, 4)) {
    const unsigned lower = static_cast<unsigned char>(c) | 0x20U;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<unsigned>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + lower - 'a' + 10;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

// The code unit of an escape \uXXXX at i, or none.
std::optional<unsigned> escape_at(std::string_view line, std::size_t i) {
  return i + 1 < line.size() && line[i] == '\\' && line[i + 1] == 'u' ? hex4(line.substr(i + 2))
                                                                      : std::nullopt;
}

// Half a surrogate pair becomes \ufffd, which keeps every column. Returns how many.
dim_t replace_lone_surrogates(std::string& line) {
  dim_t replaced = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      continue;
    }
    const std::optional<unsigned> unit = escape_at(line, i);
    if (!unit) {
      ++i;  // \\ and \" hide their second character
      continue;
    }
    const std::optional<unsigned> next = escape_at(line, i + 6);
    const bool is_high = *unit >= 0xD800 && *unit <= 0xDBFF;
    if (is_high && next && *next >= 0xDC00 && *next <= 0xDFFF) {
      i += 11;
      continue;
    }
    if (*unit >= 0xD800 && *unit <= 0xDFFF) {
      line.replace(i + 2, 4, "fffd");
      ++replaced;
    }
    i += 5;
  }
  return replaced;
}

// The library's text without its prefix, which always says line 1, and without what it read last,
// which may be long.
std::string reason(std::string_view what) {
  const std::size_t column = what.find("column ");
  const std::size_t begin = column == std::string_view::npos ? 0 : what.find(": ", column);
  std::string_view rest =
      begin == 0 || begin == std::string_view::npos ? what : what.substr(begin + 2);
  rest = rest.substr(0, rest.find("; last read"));
  return std::string(rest.substr(0, 200));
}

class LineParser {
 public:
  LineParser(const std::filesystem::path& path, Labels labels) : path_(path), labels_(labels) {}

  TextRecord parse(std::string& line, std::int64_t number) {
    place_ = fmt::format("{}:{}", path_.string(), number);
    nlohmann::json value;
    try {
      value = nlohmann::json::parse(line);
    } catch (const nlohmann::json::parse_error& e) {
      throw Error(Code::bad_input,
                  fmt::format("{}:{}: no valid JSON: {}",
                              place_,
                              std::max<std::size_t>(e.byte, 1),
                              reason(e.what())));
    }
    if (!value.is_object()) {
      throw Error(Code::bad_input,
                  fmt::format("{}:1: expected an object with the field {}, got {}",
                              place_,
                              labels_ == Labels::required ? "text and label" : "text",
                              value.type_name()));
    }
    TextRecord record{.text = field(value, line, "text"), .label = {}, .line = number};
    if (labels_ == Labels::required) {
      record.label = field(value, line, "label");
    }
    return record;
  }

 private:
  std::string field(nlohmann::json& value, const std::string& line, const char* name) const {
    const auto found = value.find(name);
    if (found == value.end()) {
      throw Error(Code::bad_input,
                  fmt::format("{}:1: expected a field \"{}\", got none", place_, name));
    }
    const std::size_t key = line.find(fmt::format("\"{}\"", name));
    const std::size_t column = key == std::string::npos ? 1 : key + 1;
    if (!found->is_string()) {
      throw Error(Code::bad_input,
                  fmt::format("{}:{}: field \"{}\": expected a text, got {}",
                              place_,
                              column,
                              name,
                              found->type_name()));
    }
    auto text = found->get<std::string>();
    if (text.empty()) {
      throw Error(
          Code::bad_input,
          fmt::format(
              "{}:{}: field \"{}\": expected at least one byte, got none", place_, column, name));
    }
    return text;
  }

  const std::filesystem::path& path_;
  Labels labels_;
  std::string place_;
};

}  // namespace

JsonLines parse_json_lines(std::string text, const std::filesystem::path& path, Labels labels) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.erase(0, 3);
  }
  JsonLines out;
  LineParser parser(path, labels);
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    const dim_t replaced = replace_lone_surrogates(line);
    if (replaced > 0 && out.replaced == 0) {
      out.first_replaced = number;
    }
    out.replaced += replaced;
    out.records.push_back(parser.parse(line, number));
  }
  if (out.records.empty()) {
    throw Error(
        Code::bad_input,
        fmt::format("{}: 0 records in {} lines, expected at least 1", path.string(), number));
  }
  return out;
}

JsonLines read_json_lines(const std::filesystem::path& path, Labels labels) {
  return parse_json_lines(read_data_file(path, "records"), path, labels);
}

}  // namespace cambium::data
