// tests/kernels/math_test.cpp — own exp and log against libm in f64, and the vector code against
// the scalar code.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/math.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cross_entropy.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Distance from the true value in units of last place of f32, denormals included.
double ulps(float got, double exact) {
  if (std::isinf(got)) {
    return std::fabs(exact) > std::numeric_limits<float>::max() ? 0 : 1e9;
  }
  int exponent = 0;
  static_cast<void>(std::frexp(exact, &exponent));
  return std::fabs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

// All floats whose bits are begin, begin + step, … below end.
template <typename Visit>
void each_float(float begin, float end, std::uint32_t step, const Visit& visit) {
  for (auto bits = std::bit_cast<std::uint32_t>(begin); bits < std::bit_cast<std::uint32_t>(end);
       bits += step) {
    visit(std::bit_cast<float>(bits));
  }
}

TEST(Exp, IsWithinOneUlp) {
  double worst = 0;

  each_float(1e-30F, 110.0F, 997, [&](float x) {
    worst = std::fmax(worst, ulps(reference::exp_of(x), std::exp(static_cast<double>(x))));
    worst = std::fmax(worst, ulps(reference::exp_of(-x), std::exp(-static_cast<double>(x))));
  });

  EXPECT_LT(worst, 1.01);
}

TEST(Exp, TakesTheEndsOfTheLine) {
  EXPECT_BITS_EQ(reference::exp_of(0.0F), 1.0F);
  EXPECT_BITS_EQ(reference::exp_of(-0.0F), 1.0F);
  EXPECT_BITS_EQ(reference::exp_of(-kInfinity), 0.0F);
  EXPECT_BITS_EQ(reference::exp_of(-104.0F), 0.0F);
  EXPECT_GT(reference::exp_of(-103.9F), 0.0F);
  EXPECT_BITS_EQ(reference::exp_of(kInfinity), kInfinity);
  EXPECT_LT(reference::exp_of(88.7F), kInfinity);
  EXPECT_TRUE(std::isnan(reference::exp_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Log, IsWithinOneUlp) {
  double worst = 0;

  each_float(std::numeric_limits<float>::denorm_min(),
             std::numeric_limits<float>::max(),
             997,
             [&](float x) {
               worst =
                   std::fmax(worst, ulps(reference::log_of(x), std::log(static_cast<double>(x))));
             });

  EXPECT_LT(worst, 1.01);
}

TEST(Log, TakesTheEndsOfTheLine) {
  EXPECT_BITS_EQ(reference::log_of(1.0F), 0.0F);
  EXPECT_BITS_EQ(reference::log_of(0.0F), -kInfinity);
  EXPECT_BITS_EQ(reference::log_of(-0.0F), -kInfinity);
  EXPECT_BITS_EQ(reference::log_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(reference::log_of(-1.0F)));
  EXPECT_TRUE(std::isnan(reference::log_of(std::numeric_limits<float>::quiet_NaN())));
}

// Portable copies use libm's software fma: the fused and the portable code must agree.
TEST(Math, SoftwareFmaGivesTheSameBits) {
  float fused = 0;
  float portable = 0;
  double fused_sum = 0;
  double portable_sum = 0;
  each_float(1e-3F, 80.0F, 99991, [&](float x) {
    reference::LaneSum<float> lanes;
    for (dim_t i = 0; i < 40; ++i) {
      lanes.add_product(i, reference::exp_of(-x), x + static_cast<float>(i));
    }
    portable = lanes.total();
    portable_sum +=
        static_cast<double>(portable) + static_cast<double>(std::bit_cast<std::uint32_t>(portable));
  });
#if defined(__x86_64__)
  if (!cpu::has_cpu_backend()) {
    GTEST_SKIP() << "this processor has no fma";
  }
  const auto run = [&]() __attribute__((target("avx2,fma"))) {
    for (auto bits = std::bit_cast<std::uint32_t>(1e-3F);
         bits < std::bit_cast<std::uint32_t>(80.0F);
         bits += 99991) {
      const auto x = std::bit_cast<float>(bits);
      reference::LaneSum<float> lanes;
      for (dim_t i = 0; i < 40; ++i) {
        lanes.add_product(i, reference::exp_of(-x), x + static_cast<float>(i));
      }
      fused = lanes.total();
      fused_sum +=
          static_cast<double>(fused) + static_cast<double>(std::bit_cast<std::uint32_t>(fused));
    }
  };
  run();
  EXPECT_BITS_EQ(fused_sum, portable_sum);
#endif
}

// combine() of one shard with sum x and maximum 0 is log(x); of a second with sum 1 and maximum -x
// it is exp(-x).
std::vector<float> log_and_exp_by_combine(Stream& stream) {
  const dim_t rows = 60000;
  Sheet<float> statistics(6, rows);
  Sheet<float> maximum(1, rows);
  Sheet<float> sum(1, rows);
  Sheet<float> loss(1, rows);
  Sheet<std::int32_t> targets(1, rows);
  for (dim_t r = 0; r < rows; ++r) {
    const auto bits = static_cast<std::uint32_t>(r * 35753);  // up to 2.1e9: all exponents
    statistics.at(1, r) = r % 2 == 0 ? std::bit_cast<float>(bits) : 0.0F;
    statistics.at(3, r) = -static_cast<float>(r) * (110.0F / 60000.0F);
    statistics.at(4, r) = r % 2 == 0 ? 0.0F : 1.0F;
  }
  cross_entropy_combine(stream,
                        {.statistics = statistics.view(),
                         .shards = 2,
                         .maximum = maximum.view(),
                         .sum = sum.view(),
                         .loss = loss.view(),
                         .targets = targets.view()});
  return joined(maximum.all(), sum.all(), loss.all());
}

class MathOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, MathOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(MathOnCpu, VectorExpAndLogHaveTheScalarBits) {
  expect_reference_bits(log_and_exp_by_combine);
}

}  // namespace
}  // namespace cambium::kernels::testing
