// tests/kernels/layer_norm_test.cpp — by hand, by finite differences, and bit for bit between
// backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/layer_norm.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(LayerNorm, MatchesTheHandComputedCase) {
  Stream stream(Backend::reference, 1);
  std::vector<float> x = {1, 5, 1, 5, -3, -3, 5, 5};
  std::vector<float> gain = {1, 2, 3, 4};
  std::vector<float> bias = {10, 20, 30, 40};
  std::vector<float> y(8);
  std::vector<float> mean(2);
  std::vector<float> inv_std(2);

  // Means 3 and 1, variances 4 and 16.
  layer_norm_forward(stream,
                     {.x = device::view_of(x.data(), 2, 4),
                      .gain = device::view_of(gain.data(), 4),
                      .bias = device::view_of(bias.data(), 4),
                      .y = device::view_of(y.data(), 2, 4),
                      .mean = device::view_of(mean.data(), 2),
                      .inv_std = device::view_of(inv_std.data(), 2),
                      .width = 4,
                      .eps = 0});

  EXPECT_BITS_EQ(mean, (std::vector<float>{3, 1}));
  EXPECT_BITS_EQ(inv_std, (std::vector<float>{0.5F, 0.25F}));
  EXPECT_BITS_EQ(y, (std::vector<float>{9, 22, 27, 44, 9, 18, 33, 44}));
}

// Operands of all three functions in f64, and the loss sum(y * weights). The statistics are those
// of the first 18 of 21 features.
struct Problem {
  static constexpr dim_t kRows = 3;
  static constexpr dim_t kCols = 21;
  static constexpr dim_t kWidth = 18;
  static constexpr double kEps = 1e-3;

  std::vector<double> x = random_doubles(kRows * kCols, 1);
  std::vector<double> gain = random_doubles(kCols, 2);
  std::vector<double> bias = random_doubles(kCols, 5);
  std::vector<double> y = std::vector<double>(kRows * kCols);
  std::vector<double> mean = std::vector<double>(kRows);
  std::vector<double> inv_std = std::vector<double>(kRows);
  std::vector<double> weights = random_doubles(kRows * kCols, 3);
  Stream stream{Backend::reference, 1};

  double loss() {
    layer_norm_forward(stream,
                       {.x = matrix_of(x, kRows),
                        .gain = matrix_of(gain, 1),
                        .bias = matrix_of(bias, 1),
                        .y = matrix_of(y, kRows),
                        .mean = matrix_of(mean, 1),
                        .inv_std = matrix_of(inv_std, 1),
                        .width = kWidth,
                        .eps = kEps});
    return weighted_sum(y, weights);
  }

  std::vector<double> input_gradient(View residual) {
    std::vector<double> dx(x.size());
    layer_norm_backward_input(stream,
                              {.dy = matrix_of(weights, kRows),
                               .x = matrix_of(x, kRows),
                               .gain = matrix_of(gain, 1),
                               .mean = matrix_of(mean, 1),
                               .inv_std = matrix_of(inv_std, 1),
                               .residual = residual,
                               .dx = matrix_of(dx, kRows),
                               .width = kWidth});
    return dx;
  }
};

TEST(LayerNorm, BackwardInputIsTheDerivative) {
  Problem p;
  static_cast<void>(p.loss());
  std::vector<double> residual = random_doubles(p.x.size(), 4);

  const std::vector<double> dx = p.input_gradient({});
  const std::vector<double> with_residual = p.input_gradient(matrix_of(residual, Problem::kRows));

  expect_gradient(p.x, dx, [&] { return p.loss(); });
  for (std::size_t i = 0; i < dx.size(); ++i) {
    EXPECT_BITS_EQ(with_residual[i], residual[i] + dx[i]);
  }
}

TEST(LayerNorm, BackwardWeightIsTheDerivativeAndIsAdded) {
  Problem p;
  static_cast<void>(p.loss());
  std::vector<double> dgain(p.gain.size(), 5.0);
  std::vector<double> dbias(p.bias.size(), 7.0);

  layer_norm_backward_weight(p.stream,
                             {.dy = matrix_of(p.weights, Problem::kRows),
                              .x = matrix_of(p.x, Problem::kRows),
                              .mean = matrix_of(p.mean, 1),
                              .inv_std = matrix_of(p.inv_std, 1),
                              .dgain = matrix_of(dgain, 1),
                              .dbias = matrix_of(dbias, 1)});

  for (double& g : dgain) {
    g -= 5.0;
  }
  for (double& b : dbias) {
    b -= 7.0;
  }
  expect_gradient(p.gain, dgain, [&] { return p.loss(); });
  expect_gradient(p.bias, dbias, [&] { return p.loss(); });
}

std::vector<float> forward_and_backward(Stream& stream, const Extent& extent, dim_t width) {
  const auto [rows, cols, gap] = extent;
  Sheet<float> x(rows, cols, gap);
  Sheet<float> gain(1, cols);
  Sheet<float> bias(1, cols);
  Sheet<float> y(rows, cols, gap + 1);
  Sheet<float> mean(1, rows);
  Sheet<float> inv_std(1, rows);
  Sheet<float> dy(rows, cols, gap);
  Sheet<float> residual(rows, cols, 2 * gap);
  Sheet<float> dx(rows, cols, gap);
  Sheet<float> dgain(1, cols);
  Sheet<float> dbias(1, cols);
  x.random(1).with_special_values();
  gain.random(2);
  bias.random(6);
  dy.random(3).with_special_values();
  residual.random(4);
  dgain.random(5);
  dbias.random(7);
  layer_norm_forward(stream,
                     {.x = x.view(),
                      .gain = gain.view(),
                      .bias = bias.view(),
                      .y = y.view(),
                      .mean = mean.view(),
                      .inv_std = inv_std.view(),
                      .width = width,
                      .eps = 1e-5});
  layer_norm_backward_weight(stream,
                             {.dy = dy.view(),
                              .x = x.view(),
                              .mean = mean.view(),
                              .inv_std = inv_std.view(),
                              .dgain = dgain.view(),
                              .dbias = dbias.view()});
  const auto backward = [&](Sheet<float>& from, View past, Sheet<float>& to) {
    layer_norm_backward_input(stream,
                              {.dy = from.view(),
                               .x = x.view(),
                               .gain = gain.view(),
                               .mean = mean.view(),
                               .inv_std = inv_std.view(),
                               .residual = past,
                               .dx = to.view(),
                               .width = width});
  };
  backward(dy, residual.view(), dx);
  backward(dy, {}, dy);  // in place
  return joined(y.all(), mean.all(), inv_std.all(), dx.all(), dy.all(), dgain.all(), dbias.all());
}

class LayerNormOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, LayerNormOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(LayerNormOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    for (const dim_t width : {extent.cols, (extent.cols + 1) / 2}) {
      SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols) + " of " +
                   std::to_string(width));
      expect_reference_bits(
          [&](Stream& stream) { return forward_and_backward(stream, extent, width); });
    }
  }
}

// An axis that was grown keeps its outputs, whatever stands in the new features.
TEST(LayerNorm, AppendedFeaturesLeaveEveryBit) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    const dim_t rows = 5;
    const dim_t cols = 37;
    const dim_t more = 30;
    Sheet<float> wide_x(rows, cols + more);
    Sheet<float> wide_gain(1, cols + more);
    Sheet<float> wide_bias(1, cols + more);
    wide_x.random(1);
    wide_gain.random(2);
    wide_bias.random(3);
    const auto run = [&](dim_t features) {
      Sheet<float> y(rows, features);
      Sheet<float> mean(1, rows);
      Sheet<float> inv_std(1, rows);
      layer_norm_forward(stream,
                         {.x = wide_x.view().slice_cols({0, features}),
                          .gain = wide_gain.view().slice_cols({0, features}),
                          .bias = wide_bias.view().slice_cols({0, features}),
                          .y = y.view(),
                          .mean = mean.view(),
                          .inv_std = inv_std.view(),
                          .width = cols,
                          .eps = 1e-6});
      std::vector<float> kept = joined(mean.values(), inv_std.values());
      for (dim_t r = 0; r < rows; ++r) {
        for (dim_t c = 0; c < cols; ++c) {
          kept.push_back(y.at(r, c));
        }
      }
      return kept;
    };

    EXPECT_BITS_EQ(run(cols + more), run(cols));
  }
}

TEST(LayerNorm, RefusesAnotherShape) {
  Stream stream(Backend::reference, 1);
  Sheet<float> x(2, 8);
  Sheet<float> gain(1, 8);
  Sheet<float> short_bias(1, 7);
  Sheet<float> mean(1, 2);
  Sheet<float> inv_std(1, 2);
  const auto run = [&](View bias, dim_t width) {
    layer_norm_forward(stream,
                       {.x = x.view(),
                        .gain = gain.view(),
                        .bias = bias,
                        .y = x.view(),
                        .mean = mean.view(),
                        .inv_std = inv_std.view(),
                        .width = width,
                        .eps = 0});
  };

  EXPECT_THROW(run(short_bias.view(), 8), Error);
  EXPECT_THROW(run(gain.view(), 9), Error);
  EXPECT_NO_THROW(run(gain.view(), 8));
}

}  // namespace
}  // namespace cambium::kernels::testing
