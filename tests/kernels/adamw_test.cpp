// tests/kernels/adamw_test.cpp — the update by its formula, the squares of grains, and bit for bit
// between backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

AdamWUpdate update_of(
    View value, View gradient, View exp_avg, View exp_avg_sq, std::int64_t updates) {
  return {.value = value,
          .gradient = gradient,
          .exp_avg = exp_avg,
          .exp_avg_sq = exp_avg_sq,
          .clip = 0.5,
          .learning_rate = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .updates = updates};
}

TEST(AdamW, FollowsTheFormulaForThreeUpdates) {
  Stream stream(Backend::reference, 1);
  std::vector<double> value = {1.0};
  std::vector<double> gradient = {0};
  std::vector<double> m = {0};
  std::vector<double> v = {0};
  double w = 1.0;
  double m_expected = 0;
  double v_expected = 0;

  for (int t = 1; t <= 3; ++t) {
    gradient[0] = 0.3 * t;
    adamw_update(
        stream,
        update_of(
            matrix_of(value, 1), matrix_of(gradient, 1), matrix_of(m, 1), matrix_of(v, 1), t));
    const double g = 0.5 * gradient[0];
    w *= 1 - 0.01 * 0.1;
    m_expected = 0.9 * m_expected + 0.1 * g;
    v_expected = 0.95 * v_expected + 0.05 * g * g;
    w -= 0.01 * (m_expected / (1 - std::pow(0.9, t))) /
         (std::sqrt(v_expected / (1 - std::pow(0.95, t))) + 1e-8);

    EXPECT_CLOSE(value[0], w, {.rtol = 1e-14});
    EXPECT_CLOSE(m[0], m_expected, {.rtol = 1e-14});
    EXPECT_CLOSE(v[0], v_expected, {.rtol = 1e-14});
  }
}

// Where the gradient has always been zero only the decay acts: an optimizer that skips such
// elements is wrong.
TEST(AdamW, ZeroGradientOnlyDecays) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    Sheet<float> value(1, 20);
    Sheet<float> zero(1, 20);
    Sheet<float> m(1, 20);
    Sheet<float> v(1, 20);
    value.random(1);
    std::vector<float> expected = value.values();
    for (float& e : expected) {
      e *= static_cast<float>(1 - 0.01 * 0.1);
    }

    adamw_update(stream, update_of(value.view(), zero.view(), m.view(), v.view(), 7));

    EXPECT_BITS_EQ(value.values(), expected);
  }
}

class AdamWOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, AdamWOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(AdamWOnCpu, HasTheReferenceBits) {
  for (const dim_t n : {1, 15, 16, 257, 40003}) {
    SCOPED_TRACE(n);
    expect_reference_bits([&](Stream& stream) {
      Sheet<float> value(1, n);
      Sheet<float> gradient(1, n);
      Sheet<float> m(1, n);
      Sheet<float> v(1, n);
      value.random(1);
      for (int t = 1; t <= 3; ++t) {
        gradient.random(static_cast<std::uint64_t>(t) + 10).with_special_values();
        adamw_update(stream, update_of(value.view(), gradient.view(), m.view(), v.view(), t));
      }
      return joined(value.all(), m.all(), v.all());
    });
  }
}

TEST_P(AdamWOnCpu, GrainSquaresHaveTheReferenceBits) {
  for (const dim_t n : {1, 5, 4096, 40003}) {
    for (const dim_t grain : {1, 3, 16, 37, 4096}) {
      SCOPED_TRACE(std::to_string(n) + " in grains of " + std::to_string(grain));
      expect_reference_bits([&](Stream& stream) {
        Sheet<float> gradient(1, n);
        Sheet<double> squares(1, ceil_div(n, grain));
        gradient.random(1).with_special_values();
        grain_squares(stream,
                      {.gradient = gradient.view(), .grain = grain, .squares = squares.view()});
        return squares.all();
      });
    }
  }
}

TEST(GrainSquares, AreChainsInF64) {
  Stream stream(Backend::reference, 1);
  std::vector<float> gradient = {1e20F, 3, 2, 1, 1e-20F};
  std::vector<double> squares(3);

  grain_squares(stream,
                {.gradient = device::view_of(gradient.data(), 5),
                 .grain = 2,
                 .squares = device::view_of(squares.data(), 3)});

  const auto large = static_cast<double>(1e20F);
  const auto small = static_cast<double>(1e-20F);
  EXPECT_BITS_EQ(squares, (std::vector<double>{large * large + 9.0, 5.0, small * small}));
}

}  // namespace
}  // namespace cambium::kernels::testing
