// tests/kernels/bias_test.cpp — by hand, by finite differences, and bit for bit between backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(Bias, IsAddedToTheSumBeforeTheResidual) {
  // 1 + 2^-24 is 1, and 2^-24 + 2^-24 is not lost: the order shows in the bits.
  const float tiny = 0x1p-24F;
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    std::vector<float> x = {tiny, 1};
    std::vector<float> bias = {tiny, tiny};
    std::vector<float> residual = {1, tiny};
    std::vector<float> y(2);

    add_bias(stream,
             {.x = device::view_of(x.data(), 2),
              .bias = device::view_of(bias.data(), 2),
              .y = device::view_of(y.data(), 2),
              .residual = device::view_of(residual.data(), 2)});

    EXPECT_BITS_EQ(y, (std::vector<float>{1 + 0x1p-23F, 1}));
  }
}

TEST(Bias, BackwardIsTheDerivativeAndIsAdded) {
  Stream stream(Backend::reference, 1);
  std::vector<double> x = random_doubles(3 * 21, 1);
  std::vector<double> bias = random_doubles(21, 2);
  std::vector<double> weights = random_doubles(3 * 21, 3);
  std::vector<double> y(3 * 21);
  std::vector<double> dbias(21, 5.0);

  bias_backward(stream, {.dy = matrix_of(weights, 3), .dbias = matrix_of(dbias, 1)});

  for (double& d : dbias) {
    d -= 5.0;
  }
  expect_gradient(bias, dbias, [&] {
    add_bias(
        stream,
        {.x = matrix_of(x, 3), .bias = matrix_of(bias, 1), .y = matrix_of(y, 3), .residual = {}});
    return weighted_sum(y, weights);
  });
}

// Micro-batches may be cut anywhere along the rows.
TEST(Bias, TwoHalvesOfTheRowsAreOneChain) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    Sheet<float> dy(9, 130);
    Sheet<float> whole(1, 130);
    Sheet<float> halves(1, 130);
    dy.random(1);

    bias_backward(stream, {.dy = dy.view(), .dbias = whole.view()});
    bias_backward(stream, {.dy = dy.view().slice_rows({0, 4}), .dbias = halves.view()});
    bias_backward(stream, {.dy = dy.view().slice_rows({4, 9}), .dbias = halves.view()});

    EXPECT_BITS_EQ(halves.values(), whole.values());
  }
}

std::vector<float> all_functions(Stream& stream, const Extent& extent) {
  const auto [rows, cols, gap] = extent;
  Sheet<float> x(rows, cols, gap);
  Sheet<float> bias(1, cols);
  Sheet<float> y(rows, cols, gap + 1);
  Sheet<float> residual(rows, cols, 2 * gap);
  Sheet<float> dbias(1, cols);
  x.random(1).with_special_values();
  bias.random(2);
  residual.random(3);
  dbias.random(4);
  add_bias(stream, {.x = x.view(), .bias = bias.view(), .y = y.view(), .residual = {}});
  // In place, onto the residual.
  add_bias(stream,
           {.x = x.view(), .bias = bias.view(), .y = residual.view(), .residual = residual.view()});
  bias_backward(stream, {.dy = x.view(), .dbias = dbias.view()});
  add_bias(stream, {.x = x.view(), .bias = bias.view(), .y = x.view(), .residual = {}});
  return joined(x.all(), y.all(), residual.all(), dbias.all());
}

class BiasOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, BiasOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(BiasOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols));
    expect_reference_bits([&](Stream& stream) { return all_functions(stream, extent); });
  }
}

TEST(Bias, RefusesAnotherShape) {
  Stream stream(Backend::reference, 1);
  Sheet<float> x(2, 8);
  Sheet<float> bias(1, 7);

  EXPECT_THROW(
      add_bias(stream, {.x = x.view(), .bias = bias.view(), .y = x.view(), .residual = {}}), Error);
  EXPECT_THROW(bias_backward(stream, {.dy = x.view(), .dbias = bias.view()}), Error);
}

}  // namespace
}  // namespace cambium::kernels::testing
