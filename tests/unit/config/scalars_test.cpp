// SPDX-License-Identifier: Apache-2.0
#include "config/scalars.hpp"

#include <gtest/gtest.h>
#include <limits>

#include "config/nearest.hpp"

namespace cambium::config {
namespace {

TEST(Scalars, CountsAreDecimalAndWhole) {
  EXPECT_EQ(parse_count("0010"), 10);
  EXPECT_EQ(parse_count("08"), 8);
  EXPECT_EQ(parse_count("+7"), 7);
  EXPECT_EQ(parse_count("-3"), -3);
  EXPECT_EQ(parse_count("1e9"), 1000000000);
  EXPECT_EQ(parse_count("2.5e3"), 2500);
  EXPECT_EQ(parse_count("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* bad :
       {"", "1.5", "0x10", "0o17", "1_000", "1,000", "1e99", "9223372036854775808", "--1", "ten"}) {
    EXPECT_EQ(parse_count(bad), std::nullopt) << bad;
  }
}

TEST(Scalars, NumbersAreNeverTextInfiniteOrNan) {
  EXPECT_EQ(parse_number(".0001"), 1e-4);
  EXPECT_EQ(parse_number("-2.5E+3"), -2500);
  for (const char* bad : {"", "inf", "nan", "1e999", "1e", "0x1p3", "1,5", "1.0.0", "+-1", "1 2"}) {
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  }
}

TEST(Scalars, SeedsHaveAll64Bits) {
  EXPECT_EQ(parse_unsigned("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_unsigned("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_unsigned("-1"), std::nullopt);
}

TEST(Scalars, TimesMayHaveColons) {
  EXPECT_EQ(parse_seconds("1:30:00"), 5400);
  EXPECT_EQ(parse_seconds("2:05"), 125);
  EXPECT_EQ(parse_seconds("0.5"), 0.5);
  for (const char* bad : {"1:60", "1:2", "1:2:3:4", ":30", "a:00"}) {
    EXPECT_EQ(parse_seconds(bad), std::nullopt) << bad;
  }
}

TEST(Scalars, SizesMayHaveUnits) {
  EXPECT_EQ(parse_bytes("80GiB"), std::int64_t{80} << 30);
  EXPECT_EQ(parse_bytes("1.5KB"), 1500);
  EXPECT_EQ(parse_bytes("64B"), 64);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  for (const char* bad : {"GiB", "1GiBB", "1.3B", "-1KiB", "1Gi"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(Scalars, FormattedNumbersReadBackToTheSameBits) {
  for (const double value :
       {0.1, 1e-8, 1.0 / 3, 123456789.125, 5e-324, 1.7976931348623157e308, 0.0}) {
    EXPECT_EQ(parse_number(format_number(value)), value) << format_number(value);
  }
  EXPECT_EQ(format_number(0.1), "0.1");
}

TEST(NearestName, FindsTyposButNotStrangers) {
  EXPECT_EQ(edit_distance("szie", "size"), 1);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(nearest_name("hidden_szie", {"steps", "hidden_size"}), "hidden_size");
  EXPECT_EQ(nearest_name("colour", {"steps", "hidden_size"}), std::nullopt);
  EXPECT_EQ(nearest_name("ab", {"cd"}), std::nullopt);
}

}  // namespace
}  // namespace cambium::config
