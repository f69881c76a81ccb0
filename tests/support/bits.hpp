// tests/support/bits.hpp — EXPECT_BITS_EQ and EXPECT_CLOSE: what "the same bits" and "close" mean
// in a test, and a message that names the first bad index, both values, the distance in units of
// last place, and how many elements differ. Both take scalars, or anything that std::span takes
// (vectors, arrays, spans) of float, double or integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iomanip>
#include <limits>
#include <span>
#include <sstream>
#include <type_traits>
#include <vector>

namespace cambium::testing {

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

namespace detail {

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
[[nodiscard]] bool same_bits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
  } else {
    return a == b;
  }
}

template <typename C>
[[nodiscard]] auto as_span(const C& c) {
  if constexpr (std::is_arithmetic_v<C>) {
    return std::span<const C>(&c, 1);
  } else {
    return std::span<const std::remove_cvref_t<decltype(*std::data(c))>>(std::data(c),
                                                                         std::size(c));
  }
}

}  // namespace detail

// Distance in units of last place: representable numbers between a and b. The two zeros are 0
// apart; NaN is infinitely far.
template <typename T>
[[nodiscard]] double ulps_between(T a, T b) {
  static_assert(std::is_floating_point_v<T>);
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  }
  using Bits = detail::BitsOf<T>;
  const auto ordered = [](T x) {
    constexpr Bits sign = Bits{1} << (sizeof(T) * 8 - 1);
    const Bits bits = std::bit_cast<Bits>(x);
    return (bits & sign) != 0 ? -static_cast<double>(bits & ~sign) : static_cast<double>(bits);
  };
  return std::fabs(ordered(a) - ordered(b));
}

namespace detail {

template <typename A, typename B, typename Good>
::testing::AssertionResult compare(
    const char* a_text, const char* b_text, const A& a, const B& b, Good good) {
  const auto x = as_span(a);
  const auto y = as_span(b);
  using T = std::remove_cvref_t<decltype(x[0])>;
  static_assert(std::is_same_v<T, std::remove_cvref_t<decltype(y[0])>>,
                "both sides must have one element type");
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<T>::max_digits10);
  if (x.size() != y.size()) {
    return ::testing::AssertionFailure()
           << a_text << " has " << x.size() << " elements, " << b_text << " has " << y.size();
  }
  std::size_t bad = 0;
  std::size_t first = 0;
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (good(x[i], y[i])) {
      continue;
    }
    first = bad == 0 ? i : first;
    ++bad;
    worst = std::fmax(worst, std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
  }
  if (bad == 0) {
    return ::testing::AssertionSuccess();
  }
  out << a_text << " and " << b_text << " differ in " << bad << " of " << x.size()
      << " elements, first at [" << first << "]: " << x[first] << " and " << y[first];
  if constexpr (std::is_floating_point_v<T>) {
    out << " (" << ulps_between(x[first], y[first]) << " ulp, bits " << std::hex
        << std::bit_cast<BitsOf<T>>(x[first]) << " and " << std::bit_cast<BitsOf<T>>(y[first])
        << std::dec << ")";
  }
  out << ", largest difference " << worst;
  return ::testing::AssertionFailure() << out.str();
}

}  // namespace detail

template <typename A, typename B>
::testing::AssertionResult bits_equal(const char* a_text,
                                      const char* b_text,
                                      const A& a,
                                      const B& b) {
  return detail::compare(
      a_text, b_text, a, b, [](auto x, auto y) { return detail::same_bits(x, y); });
}

// |a - b| <= atol + rtol * |b|; equal infinities are close, a NaN never is.
template <typename A, typename B>
::testing::AssertionResult all_close(const char* a_text,
                                     const char* b_text,
                                     const char*,
                                     const A& a,
                                     const B& b,
                                     const Tolerance& tolerance) {
  return detail::compare(a_text, b_text, a, b, [&](auto x, auto y) {
    const auto dx = static_cast<double>(x);
    const auto dy = static_cast<double>(y);
    return dx == dy || std::fabs(dx - dy) <= tolerance.atol + tolerance.rtol * std::fabs(dy);
  });
}

}  // namespace cambium::testing

#define EXPECT_BITS_EQ(a, b) EXPECT_PRED_FORMAT2(::cambium::testing::bits_equal, a, b)
#define ASSERT_BITS_EQ(a, b) ASSERT_PRED_FORMAT2(::cambium::testing::bits_equal, a, b)
// EXPECT_CLOSE(a, b, {.rtol = 1e-6, .atol = 1e-7})
#define EXPECT_CLOSE(a, b, ...) \
  EXPECT_PRED_FORMAT3(          \
      ::cambium::testing::all_close, a, b, (::cambium::testing::Tolerance __VA_ARGS__))
