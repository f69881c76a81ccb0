// Doubles that read back with their bits, and lines that any JSON parser takes.
// SPDX-License-Identifier: Apache-2.0
#include "metrics/fields.hpp"

#include <bit>
#include <clocale>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace cambium::metrics {
namespace {

TEST(Fields, KeepTheirOrderAndTypes) {
  const Fields fields{{"step", 3},
                      {"loss", 2.0},
                      {"ok", true},
                      {"phase", "a\"b\n"},
                      {"list", std::vector<std::string>{"x", "y"}}};

  EXPECT_EQ(to_json(fields),
            R"({"step":3,"loss":2.0,"ok":true,"phase":"a\"b\n","list":["x","y"]})");
}

TEST(Fields, NestLists) {
  const Fields fields{{"ranks", to_json_list({{{"rank", 0}}, {{"rank", 1}}})}};

  EXPECT_EQ(to_json(fields), R"({"ranks":[{"rank":0},{"rank":1}]})");
}

TEST(Fields, DoublesReadBackWithTheirBits) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      const double back = nlohmann::json::parse(to_json(value)).get<double>();
      ASSERT_EQ(std::bit_cast<std::uint64_t>(back), std::bit_cast<std::uint64_t>(value))
          << to_json(value);
    }
  }
  EXPECT_EQ(to_json(0.1), "0.10000000000000001");
  EXPECT_EQ(to_json(static_cast<double>(1.1F)), "1.1000000238418579");
}

// JSON has no NaN and no infinity; -0.0 and denormals it has.
TEST(MetricsFailures, P07NotFiniteNumbersAreNullWithAName) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string line = to_json(Fields{{"loss", std::nan("")},
                                          {"grad_norm", infinity},
                                          {"low", -infinity},
                                          {"zero", -0.0},
                                          {"tiny", 1e-320}});

  const nlohmann::json row = nlohmann::json::parse(line);

  EXPECT_TRUE(row["loss"].is_null());
  EXPECT_EQ(row["loss_text"], "nan");
  EXPECT_TRUE(row["grad_norm"].is_null());
  EXPECT_EQ(row["grad_norm_text"], "inf");
  EXPECT_EQ(row["low_text"], "-inf");
  EXPECT_TRUE(std::signbit(row["zero"].get<double>()));
  EXPECT_EQ(row["tiny"].get<double>(), 1e-320);
  EXPECT_FALSE(row.contains("zero_text"));
}

TEST(Fields, BytesThatAreNoTextBecomeReplacementCharacters) {
  EXPECT_EQ(nlohmann::json::parse(quote_json("a\xff z\x01")).get<std::string>(),
            "a\xEF\xBF\xBD z\x01");
}

TEST(Fields, DoNotListenToTheLocale) {
  const char* const name = std::setlocale(LC_NUMERIC, "de_DE.UTF-8");
  const std::string text = to_json(0.5);
  std::setlocale(LC_NUMERIC, "C");

  EXPECT_EQ(text, "0.5") << (name == nullptr ? "(locale not installed)" : name);
}

}  // namespace
}  // namespace cambium::metrics
