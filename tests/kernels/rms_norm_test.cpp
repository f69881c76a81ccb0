// tests/kernels/rms_norm_test.cpp — by hand, by finite differences, and bit for bit between
// backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rms_norm.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(RmsNorm, MatchesTheHandComputedCase) {
  Stream stream(Backend::reference, 1);
  std::vector<float> x = {3, 4, 0, 0, 6, 8, 0, 0};
  std::vector<float> gain = {1, 2, 3, 4};
  std::vector<float> y(8);
  std::vector<float> inv_rms(2);

  // Mean squares 25/4 and 100/4, roots 2.5 and 5.
  rms_norm_forward(stream,
                   {.x = device::view_of(x.data(), 2, 4),
                    .gain = device::view_of(gain.data(), 4),
                    .y = device::view_of(y.data(), 2, 4),
                    .inv_rms = device::view_of(inv_rms.data(), 2),
                    .width = 4,
                    .eps = 0});

  EXPECT_BITS_EQ(inv_rms, (std::vector<float>{1 / 2.5F, 1 / 5.0F}));
  EXPECT_BITS_EQ(
      y, (std::vector<float>{3 * 0.4F, (4 * 0.4F) * 2, 0, 0, 6 * 0.2F, (8 * 0.2F) * 2, 0, 0}));
}

// Operands of all three functions in f64, and the loss sum(y * weights).
struct Problem {
  static constexpr dim_t kRows = 3;
  static constexpr dim_t kCols = 21;
  static constexpr dim_t kWidth = 18;
  static constexpr double kEps = 1e-3;

  std::vector<double> x = random_doubles(kRows * kCols, 1);
  std::vector<double> gain = random_doubles(kCols, 2);
  std::vector<double> y = std::vector<double>(kRows * kCols);
  std::vector<double> inv_rms = std::vector<double>(kRows);
  std::vector<double> weights = random_doubles(kRows * kCols, 3);
  Stream stream{Backend::reference, 1};

  double loss() {
    rms_norm_forward(stream,
                     {.x = matrix_of(x, kRows),
                      .gain = matrix_of(gain, 1),
                      .y = matrix_of(y, kRows),
                      .inv_rms = matrix_of(inv_rms, 1),
                      .width = kWidth,
                      .eps = kEps});
    return weighted_sum(y, weights);
  }
};

TEST(RmsNorm, BackwardInputIsTheDerivative) {
  Problem p;
  static_cast<void>(p.loss());
  std::vector<double> dx(p.x.size());
  std::vector<double> residual = random_doubles(p.x.size(), 4);
  std::vector<double> with_residual(p.x.size());

  rms_norm_backward_input(p.stream,
                          {.dy = matrix_of(p.weights, Problem::kRows),
                           .x = matrix_of(p.x, Problem::kRows),
                           .gain = matrix_of(p.gain, 1),
                           .inv_rms = matrix_of(p.inv_rms, 1),
                           .residual = {},
                           .dx = matrix_of(dx, Problem::kRows),
                           .width = Problem::kWidth});
  rms_norm_backward_input(p.stream,
                          {.dy = matrix_of(p.weights, Problem::kRows),
                           .x = matrix_of(p.x, Problem::kRows),
                           .gain = matrix_of(p.gain, 1),
                           .inv_rms = matrix_of(p.inv_rms, 1),
                           .residual = matrix_of(residual, Problem::kRows),
                           .dx = matrix_of(with_residual, Problem::kRows),
                           .width = Problem::kWidth});

  expect_gradient(p.x, dx, [&] { return p.loss(); });
  for (std::size_t i = 0; i < dx.size(); ++i) {
    EXPECT_BITS_EQ(with_residual[i], residual[i] + dx[i]);
  }
}

TEST(RmsNorm, BackwardWeightIsTheDerivativeAndIsAdded) {
  Problem p;
  static_cast<void>(p.loss());
  std::vector<double> dgain(p.gain.size(), 5.0);

  rms_norm_backward_weight(p.stream,
                           {.dy = matrix_of(p.weights, Problem::kRows),
                            .x = matrix_of(p.x, Problem::kRows),
                            .inv_rms = matrix_of(p.inv_rms, 1),
                            .dgain = matrix_of(dgain, 1)});

  for (double& g : dgain) {
    g -= 5.0;
  }
  expect_gradient(p.gain, dgain, [&] { return p.loss(); });
}

std::vector<float> forward_and_backward(Stream& stream, const Extent& extent, dim_t width) {
  const auto [rows, cols, gap] = extent;
  Sheet<float> x(rows, cols, gap);
  Sheet<float> gain(1, cols);
  Sheet<float> y(rows, cols, gap + 1);
  Sheet<float> inv_rms(1, rows);
  Sheet<float> dy(rows, cols, gap);
  Sheet<float> residual(rows, cols, 2 * gap);
  Sheet<float> dx(rows, cols, gap);
  Sheet<float> dgain(1, cols);
  x.random(1).with_special_values();
  gain.random(2);
  dy.random(3).with_special_values();
  residual.random(4);
  dgain.random(5);
  rms_norm_forward(stream,
                   {.x = x.view(),
                    .gain = gain.view(),
                    .y = y.view(),
                    .inv_rms = inv_rms.view(),
                    .width = width,
                    .eps = 1e-5});
  rms_norm_backward_weight(
      stream, {.dy = dy.view(), .x = x.view(), .inv_rms = inv_rms.view(), .dgain = dgain.view()});
  rms_norm_backward_input(stream,
                          {.dy = dy.view(),
                           .x = x.view(),
                           .gain = gain.view(),
                           .inv_rms = inv_rms.view(),
                           .residual = residual.view(),
                           .dx = dx.view(),
                           .width = width});
  std::vector<float> all = joined(y.all(), inv_rms.all(), dx.all(), dgain.all());
  // Without a residual, and in place.
  rms_norm_backward_input(stream,
                          {.dy = dy.view(),
                           .x = x.view(),
                           .gain = gain.view(),
                           .inv_rms = inv_rms.view(),
                           .residual = {},
                           .dx = dy.view(),
                           .width = width});
  return joined(all, dy.all());
}

class RmsNormOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, RmsNormOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(RmsNormOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols));
    expect_reference_bits(
        [&](Stream& stream) { return forward_and_backward(stream, extent, extent.cols); });
  }
}

// An axis grown by zeros keeps its outputs: the divisor is stored, and zeros add nothing to any
// lane.
TEST(RmsNorm, AppendedZeroFeaturesLeaveEveryBit) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    const dim_t rows = 5;
    const dim_t cols = 37;
    const dim_t more = 30;
    Sheet<float> x(rows, cols);
    Sheet<float> wide_x(rows, cols + more);
    Sheet<float> gain(1, cols);
    Sheet<float> wide_gain(1, cols + more);
    Sheet<float> y(rows, cols);
    Sheet<float> wide_y(rows, cols + more);
    Sheet<float> inv_rms(1, rows);
    Sheet<float> wide_inv_rms(1, rows);
    x.random(1);
    gain.random(2);
    wide_gain.random(3);
    for (dim_t c = 0; c < cols; ++c) {
      wide_gain.at(0, c) = gain.at(0, c);
      for (dim_t r = 0; r < rows; ++r) {
        wide_x.at(r, c) = x.at(r, c);
      }
    }

    rms_norm_forward(stream,
                     {.x = x.view(),
                      .gain = gain.view(),
                      .y = y.view(),
                      .inv_rms = inv_rms.view(),
                      .width = cols,
                      .eps = 1e-6});
    rms_norm_forward(stream,
                     {.x = wide_x.view(),
                      .gain = wide_gain.view(),
                      .y = wide_y.view(),
                      .inv_rms = wide_inv_rms.view(),
                      .width = cols,
                      .eps = 1e-6});

    EXPECT_BITS_EQ(wide_inv_rms.values(), inv_rms.values());
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        EXPECT_BITS_EQ(wide_y.at(r, c), y.at(r, c));
      }
    }
  }
}

TEST(RmsNorm, RefusesAnotherShape) {
  Stream stream(Backend::reference, 1);
  Sheet<float> x(2, 8);
  Sheet<float> gain(1, 7);
  Sheet<float> inv_rms(1, 2);

  EXPECT_THROW(rms_norm_forward(stream,
                                {.x = x.view(),
                                 .gain = gain.view(),
                                 .y = x.view(),
                                 .inv_rms = inv_rms.view(),
                                 .width = 8,
                                 .eps = 0}),
               Error);
}

}  // namespace
}  // namespace cambium::kernels::testing
