// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace cambium {
namespace {

// Known answers of the authors' library (Random123, kat_vectors, philox4x32 10).
TEST(Philox, GivesTheAuthorsAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Philox4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Philox4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Philox4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, EachPartOfTheNameMakesAnotherStream) {
  const std::set<std::uint64_t> first = {RandomStream(1, Purpose::init).bits_at(0),
                                         RandomStream(2, Purpose::init).bits_at(0),
                                         RandomStream(1, Purpose::order).bits_at(0),
                                         RandomStream(1, Purpose::init, 1).bits_at(0),
                                         RandomStream(1, Purpose::init, 0, 1).bits_at(0),
                                         RandomStream(1, Purpose::init, 1, 1).bits_at(0),
                                         RandomStream(1, Purpose::init).bits_at(1)};
  EXPECT_EQ(first.size(), 7U);
  EXPECT_EQ(RandomStream(1, Purpose::init, 3).bits_at(9),
            RandomStream(1, Purpose::init, 3).bits_at(9));
}

TEST(RandomStream, UniformFillsTheUnitInterval) {
  const RandomStream stream(7, Purpose::init);
  double sum = 0;
  constexpr int n = 20000;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = stream.uniform_at(i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.01);  // 5 standard errors
}

TEST(RandomStream, NormalHasItsMomentsAndTails) {
  const RandomStream stream(7, Purpose::init);
  constexpr int n = 50000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  int beyond_two = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = stream.normal_at(i);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    beyond_two += std::fabs(x) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(sum / n, 0, 0.025);
  EXPECT_NEAR(squares / n, 1, 0.035);
  EXPECT_NEAR(fourth / n, 3, 0.25);
  EXPECT_NEAR(beyond_two / static_cast<double>(n), 0.0455, 0.005);
}

TEST(RandomStream, NormalNeighboursAreIndependentAndNoneIsInfinite) {
  const RandomStream stream(11, Purpose::init);
  double worst = 0;
  double sum_of_products = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    sum_of_products += stream.normal_at(i) * stream.normal_at(i + 1);
    worst = std::fmax(worst, std::fabs(stream.normal_at(i)));
  }
  EXPECT_LT(std::fabs(sum_of_products / 2000), 0.12);  // 5 standard errors
  EXPECT_GT(worst, 2.8);
  EXPECT_LT(worst, 8.6);  // sqrt(-2 ln 2^-53)
}

TEST(RandomStream, BelowIsEvenOverItsRange) {
  const RandomStream stream(3, Purpose::order);
  std::vector<int> count(7);
  for (std::uint64_t i = 0; i < 7000; ++i) {
    ++count.at(stream.below_at(i, 7));
  }
  for (const int c : count) {
    EXPECT_NEAR(c, 1000, 150);
  }
}

TEST(Permutation, HasEveryElementOnce) {
  for (const std::uint64_t n : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 1000U, 4097U}) {
    const Permutation permutation(n, 42, 3);
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t at = permutation.at(i);
      ASSERT_LT(at, n);
      EXPECT_FALSE(seen[at]) << n << ": " << at << " twice";
      seen[at] = true;
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpochAndIsNotTheIdentity) {
  const Permutation one(1000, 42, 0);
  const Permutation same(1000, 42, 0);
  const Permutation epoch(1000, 42, 1);
  const Permutation seed(1000, 43, 0);
  int fixed = 0;
  int as_epoch = 0;
  int as_seed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one.at(i), same.at(i));
    fixed += one.at(i) == i ? 1 : 0;
    as_epoch += one.at(i) == epoch.at(i) ? 1 : 0;
    as_seed += one.at(i) == seed.at(i) ? 1 : 0;
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(as_epoch, 10);
  EXPECT_LT(as_seed, 10);
}

TEST(Permutation, ReachesPastThirtyTwoBits) {
  constexpr std::uint64_t n = std::uint64_t{1} << 40;
  const Permutation permutation(n, 1, 0);
  std::uint64_t high = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    ASSERT_LT(permutation.at(n - 1 - i), n);
    high |= permutation.at(i);
  }
  EXPECT_GT(high, std::uint64_t{1} << 39);
}

}  // namespace
}  // namespace cambium
