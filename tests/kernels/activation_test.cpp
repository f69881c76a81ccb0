// tests/kernels/activation_test.cpp — by hand, by finite differences, and bit for bit between
// backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include <cmath>

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(Activation, SiluAndSwigluAreHalfAtZeroAndNearTheLineFarOut) {
  Stream stream(Backend::reference, 1);
  std::vector<float> gate = {0, 30, -200};
  std::vector<float> up = {5, 2, 3};
  std::vector<float> silu(3);
  std::vector<float> swiglu(3);

  silu_forward(stream,
               {.x = device::view_of(gate.data(), 3), .y = device::view_of(silu.data(), 3)});
  swiglu_forward(stream,
                 {.gate = device::view_of(gate.data(), 3),
                  .up = device::view_of(up.data(), 3),
                  .y = device::view_of(swiglu.data(), 3)});

  EXPECT_BITS_EQ(silu, (std::vector<float>{0, 30, -0.0F}));
  EXPECT_BITS_EQ(swiglu, (std::vector<float>{0, 60, -0.0F}));
}

TEST(Activation, SwigluBackwardIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  std::vector<double> gate = random_doubles(26, 1, 3);
  std::vector<double> up = random_doubles(26, 2);
  std::vector<double> weights = random_doubles(26, 3);
  std::vector<double> y(26);
  std::vector<double> dgate(26);
  std::vector<double> dup(26);
  const auto loss = [&] {
    swiglu_forward(stream,
                   {.gate = matrix_of(gate, 2), .up = matrix_of(up, 2), .y = matrix_of(y, 2)});
    return weighted_sum(y, weights);
  };

  swiglu_backward(stream,
                  {.dy = matrix_of(weights, 2),
                   .gate = matrix_of(gate, 2),
                   .up = matrix_of(up, 2),
                   .dgate = matrix_of(dgate, 2),
                   .dup = matrix_of(dup, 2)});

  expect_gradient(gate, dgate, loss);
  expect_gradient(up, dup, loss);
}

TEST(Activation, SiluBackwardIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  std::vector<double> x = random_doubles(26, 1, 3);
  std::vector<double> weights = random_doubles(26, 3);
  std::vector<double> y(26);
  std::vector<double> dx(26);

  silu_backward(stream,
                {.dy = matrix_of(weights, 2), .x = matrix_of(x, 2), .dx = matrix_of(dx, 2)});

  expect_gradient(x, dx, [&] {
    silu_forward(stream, {.x = matrix_of(x, 2), .y = matrix_of(y, 2)});
    return weighted_sum(y, weights);
  });
}

// The tanh form in f64, written as its source has it.
double gelu_tanh(double z) {
  return 0.5 * z * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z)));
}

TEST(Activation, GeluIsTheTanhForm) {
  Stream stream(Backend::reference, 1);
  std::vector<float> x;
  for (int i = -600; i <= 600; ++i) {
    x.push_back(static_cast<float>(i) / 100);
  }
  std::vector<float> y(x.size());
  std::vector<float> exact(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    exact[i] = static_cast<float>(gelu_tanh(static_cast<double>(x[i])));
  }

  gelu_tanh_forward(stream,
                    {.x = device::view_of(x.data(), static_cast<dim_t>(x.size())),
                     .y = device::view_of(y.data(), static_cast<dim_t>(y.size()))});

  EXPECT_CLOSE(y, exact, {.rtol = 3e-6, .atol = 1e-12});
}

TEST(Activation, GeluIsZeroFarBelowAndTheLineFarAbove) {
  Stream stream(Backend::reference, 1);
  std::vector<float> x = {0, 30, -200, -1e13F, 1e13F};
  std::vector<float> y(5);
  std::vector<float> dy = {1, 1, 1, 1, 1};
  std::vector<float> dx(5);

  gelu_tanh_forward(stream, {.x = device::view_of(x.data(), 5), .y = device::view_of(y.data(), 5)});
  gelu_tanh_backward(stream,
                     {.dy = device::view_of(dy.data(), 5),
                      .x = device::view_of(x.data(), 5),
                      .dx = device::view_of(dx.data(), 5)});

  EXPECT_BITS_EQ(y, (std::vector<float>{0, 30, -0.0F, -0.0F, 1e13F}));
  EXPECT_BITS_EQ(dx, (std::vector<float>{0.5F, 1, 0, 0, 1}));
}

TEST(Activation, GeluBackwardIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  std::vector<double> x = random_doubles(26, 1, 3);
  std::vector<double> weights = random_doubles(26, 3);
  std::vector<double> y(26);
  std::vector<double> dx(26);

  gelu_tanh_backward(stream,
                     {.dy = matrix_of(weights, 2), .x = matrix_of(x, 2), .dx = matrix_of(dx, 2)});

  expect_gradient(x, dx, [&] {
    gelu_tanh_forward(stream, {.x = matrix_of(x, 2), .y = matrix_of(y, 2)});
    return weighted_sum(y, weights);
  });
}

std::vector<float> all_functions(Stream& stream, const Extent& extent) {
  const auto [rows, cols, gap] = extent;
  Sheet<float> gate(rows, cols, gap);
  Sheet<float> up(rows, cols, gap + 1);
  Sheet<float> dy(rows, cols, gap);
  Sheet<float> swiglu(rows, cols, gap);
  Sheet<float> silu(rows, cols, gap);
  Sheet<float> dx(rows, cols, gap);
  gate.random(1, 5).with_special_values();
  up.random(2).with_special_values();
  dy.random(3);
  swiglu_forward(stream, {.gate = gate.view(), .up = up.view(), .y = swiglu.view()});
  silu_forward(stream, {.x = gate.view(), .y = silu.view()});
  silu_backward(stream, {.dy = dy.view(), .x = gate.view(), .dx = dx.view()});
  Sheet<float> gelu(rows, cols, gap);
  Sheet<float> dgelu(rows, cols, gap + 2);
  gelu_tanh_forward(stream, {.x = gate.view(), .y = gelu.view()});
  gelu_tanh_backward(stream, {.dy = dy.view(), .x = gate.view(), .dx = dgelu.view()});
  // In place.
  swiglu_backward(stream,
                  {.dy = dy.view(),
                   .gate = gate.view(),
                   .up = up.view(),
                   .dgate = gate.view(),
                   .dup = up.view()});
  return joined(swiglu.all(), silu.all(), dx.all(), gelu.all(), dgelu.all(), gate.all(), up.all());
}

class ActivationOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, ActivationOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(ActivationOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols));
    expect_reference_bits([&](Stream& stream) { return all_functions(stream, extent); });
  }
}

}  // namespace
}  // namespace cambium::kernels::testing
