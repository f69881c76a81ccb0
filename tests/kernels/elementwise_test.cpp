// tests/kernels/elementwise_test.cpp — by hand, by finite differences, and bit for bit between
// backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(Elementwise, MatchesTheHandComputedCases) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    std::vector<float> a = {1, 2, 3};
    std::vector<float> b = {10, 20, 30};
    std::vector<float> y(3);
    std::vector<float> gate = {2, 0, -1};
    const View va = device::view_of(a.data(), 3);
    const View vb = device::view_of(b.data(), 3);
    const View vy = device::view_of(y.data(), 3);

    add(stream, va, vb, vy);
    EXPECT_BITS_EQ(y, (std::vector<float>{11, 22, 33}));
    add_into(stream, vy, va);
    EXPECT_BITS_EQ(y, (std::vector<float>{12, 24, 36}));
    scale(stream, vy, 0.5);
    EXPECT_BITS_EQ(y, (std::vector<float>{6, 12, 18}));
    gated_residual_forward(stream,
                           {.x = va, .r = vb, .gate = device::view_of(gate.data(), 3), .y = vy});
    EXPECT_BITS_EQ(y, (std::vector<float>{21, 2, -27}));
    copy(stream, vb, vy);
    EXPECT_BITS_EQ(y, b);
    fill_zero(stream, vy);
    EXPECT_BITS_EQ(y, (std::vector<float>{0, 0, 0}));
  }
}

TEST(Elementwise, GatedResidualBackwardIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  std::vector<double> x = random_doubles(15, 1);
  std::vector<double> r = random_doubles(15, 2);
  std::vector<double> gate = random_doubles(5, 3);
  std::vector<double> weights = random_doubles(15, 4);
  std::vector<double> y(15);
  std::vector<double> dr(15);
  std::vector<double> dgate(5, 2.0);
  const auto loss = [&] {
    gated_residual_forward(stream,
                           {.x = matrix_of(x, 3),
                            .r = matrix_of(r, 3),
                            .gate = matrix_of(gate, 1),
                            .y = matrix_of(y, 3)});
    return weighted_sum(y, weights);
  };

  gated_residual_backward_input(
      stream, {.dy = matrix_of(weights, 3), .gate = matrix_of(gate, 1), .dr = matrix_of(dr, 3)});
  gated_residual_backward_weight(
      stream, {.dy = matrix_of(weights, 3), .r = matrix_of(r, 3), .dgate = matrix_of(dgate, 1)});

  for (double& g : dgate) {
    g -= 2.0;
  }
  expect_gradient(r, dr, loss);
  expect_gradient(gate, dgate, loss);
}

std::vector<float> all_functions(Stream& stream, const Extent& extent) {
  const auto [rows, cols, gap] = extent;
  Sheet<float> a(rows, cols, gap);
  Sheet<float> b(rows, cols, gap + 1);
  Sheet<float> sum(rows, cols, gap);
  Sheet<float> copied(rows, cols, gap);
  Sheet<float> gate(1, cols);
  Sheet<float> gated(rows, cols, gap);
  Sheet<float> dr(rows, cols, gap);
  Sheet<float> dgate(1, cols);
  a.random(1).with_special_values();
  b.random(2).with_special_values();
  gate.random(3);
  dgate.random(4);
  add(stream, a.view(), b.view(), sum.view());
  copy(stream, b.view(), copied.view());
  gated_residual_forward(stream,
                         {.x = a.view(), .r = b.view(), .gate = gate.view(), .y = gated.view()});
  gated_residual_backward_input(stream, {.dy = a.view(), .gate = gate.view(), .dr = dr.view()});
  gated_residual_backward_weight(stream, {.dy = a.view(), .r = b.view(), .dgate = dgate.view()});
  scale(stream, a.view(), 0.1);
  add_into(stream, a.view(), b.view());
  fill_zero(stream, b.view());
  return joined(sum.all(), copied.all(), gated.all(), dr.all(), dgate.all(), a.all(), b.all());
}

class ElementwiseOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(ElementwiseOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols));
    expect_reference_bits([&](Stream& stream) { return all_functions(stream, extent); });
  }
}

}  // namespace
}  // namespace cambium::kernels::testing
