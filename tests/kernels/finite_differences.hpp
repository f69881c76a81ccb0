// tests/kernels/finite_differences.hpp — gradients against central differences, in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "base/philox.hpp"
#include "device/view.hpp"
#include "support/bits.hpp"

namespace cambium::kernels::testing {

// Compares `gradient` with central differences of `loss` in every element of `x`.
inline void expect_gradient(std::vector<double>& x,
                            const std::vector<double>& gradient,
                            const std::function<double()>& loss,
                            double tolerance = 1e-7) {
  std::vector<double> differences;
  for (double& element : x) {
    const double kept = element;
    const double h = 1e-5 * std::fmax(1.0, std::fabs(kept));
    element = kept + h;
    const double above = loss();
    element = kept - h;
    const double below = loss();
    element = kept;
    differences.push_back((above - below) / (2 * h));
  }
  EXPECT_CLOSE(gradient, differences, {.rtol = tolerance, .atol = tolerance});
}

// A scalar loss of a matrix: its sum weighted by `weights`, whose gradient is `weights`.
inline double weighted_sum(const std::vector<double>& y, const std::vector<double>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += y[i] * weights[i];
  }
  return sum;
}

inline std::vector<double> random_doubles(std::size_t n, std::uint64_t seed, double size = 1) {
  const RandomStream numbers(seed, Purpose::probe);
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = size * numbers.normal_at(i);
  }
  return values;
}

inline device::View matrix_of(std::vector<double>& values, dim_t rows) {
  return device::view_of(values.data(), rows, static_cast<dim_t>(values.size()) / rows);
}

}  // namespace cambium::kernels::testing
