// tests/unit/device/bfloat16_test.cpp — rounding to bf16 against a search over its values.
// SPDX-License-Identifier: Apache-2.0
#include "device/bfloat16.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace cambium::device {
namespace {

// The nearest finite bf16 of a positive value by distances in f64; ties to the even one.
std::uint16_t nearest(float value) {
  std::uint16_t below = 0;
  for (int bit = 14; bit >= 0; --bit) {
    const auto candidate = static_cast<std::uint16_t>(below | (1U << bit));
    if (candidate <= 0x7f7f && to_float({candidate}) <= value) {
      below = candidate;
    }
  }
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double down = static_cast<double>(value) - to_float({below});
  const double up = static_cast<double>(to_float({above})) - value;
  if (down == up) {
    return (below & 1U) == 0 ? below : above;
  }
  return down < up ? below : above;
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random()) & 0x7fffffffU;
    const auto value = std::bit_cast<float>(i % 4 == 0 ? (bits & ~0x7fffU) : bits);
    if (!std::isfinite(value) || value >= to_float({0x7f7f})) {
      continue;
    }
    ASSERT_EQ(round_to_bf16(value).bits, nearest(value)) << value;
    ASSERT_EQ(round_to_bf16(-value).bits, nearest(value) | 0x8000U) << value;
  }
}

TEST(BFloat16, KeepsEveryValueThatItCanHold) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(to_float(value))) {
      ASSERT_EQ(round_to_bf16(to_float(value)), value);
    }
  }
}

TEST(BFloat16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(round_to_bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  // A NaN whose upper half alone would read as infinity.
  EXPECT_TRUE(std::isnan(to_float(round_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace cambium::device
