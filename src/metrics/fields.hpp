// metrics/fields.hpp — an ordered list of named values that becomes one line of JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cambium::metrics {

// JSON text that is put in as it is: how lists and nested objects get into Fields.
struct RawJson {
  std::string text;
};

class Value {
 public:
  Value(bool value) : data_(value) {}  // NOLINT(google-explicit-constructor)

  Value(double value) : data_(value) {}  // NOLINT(google-explicit-constructor)

  Value(float value) : data_(static_cast<double>(value)) {}  // NOLINT(google-explicit-constructor)

  Value(const char* value) : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)

  Value(std::string value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Value(std::string_view value)
      : data_(std::string(value)) {}  // NOLINT(google-explicit-constructor)

  Value(std::vector<std::string> value)
      : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Value(RawJson value) : data_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  template <std::integral T>

  requires(!std::same_as<T, bool>) Value(T value)
      : data_(static_cast<std::int64_t>(value)) {}  // NOLINT(google-explicit-constructor)

  using Data =
      std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, RawJson>;

  [[nodiscard]] const Data& data() const {
    return data_;
  }

 private:
  Data data_;
};

// Fields{{"step", 3}, {"loss", 2.5}, {"phase", "pretrain"}}
class Fields {
 public:
  Fields() = default;

  Fields(std::initializer_list<std::pair<std::string, Value>> list) : list_(list) {}

  Fields& add(std::string key, Value value) {
    list_.emplace_back(std::move(key), std::move(value));
    return *this;
  }

  Fields& add_all(const Fields& more) {
    list_.insert(list_.end(), more.list_.begin(), more.list_.end());
    return *this;
  }

  [[nodiscard]] const std::vector<std::pair<std::string, Value>>& list() const {
    return list_;
  }

 private:
  std::vector<std::pair<std::string, Value>> list_;
};

// One JSON object without a line break. Doubles have 17 significant digits, so that they read back
// with the same bits, in every locale; a whole double keeps its ".0". What JSON cannot say becomes
// null and is named by a second field:
// {"loss":null,"loss_text":"nan"} (nan, inf, -inf). Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_json(const Fields& fields);

// [{…},{…}]
[[nodiscard]] RawJson to_json_list(const std::vector<Fields>& rows);

// The JSON text of one double by the rule above; "null" when it is not finite.
[[nodiscard]] std::string to_json(double value);

// A quoted JSON string.
[[nodiscard]] std::string quote_json(std::string_view text);

}  // namespace cambium::metrics
