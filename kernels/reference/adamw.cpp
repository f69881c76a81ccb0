// kernels/reference/adamw.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/adamw.hpp"

#include <algorithm>

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Update {
  CAMBIUM_INLINE static void run(const AdamWUpdate& a) {
    const AdamWScalars<T> s(a);
    T* value = a.value.as<T>();
    const T* gradient = a.gradient.as<T>();
    T* exp_avg = a.exp_avg.as<T>();
    T* exp_avg_sq = a.exp_avg_sq.as<T>();
    for (dim_t i = 0; i < a.value.cols; ++i) {
      const T g = gradient[i] * s.clip;
      const T m = fma_of(s.beta1, exp_avg[i], s.one_less_beta1 * g);
      const T v = fma_of(s.beta2, exp_avg_sq[i], (s.one_less_beta2 * g) * g);
      const T denominator = sqrt_of(v * s.correction2) + s.eps;
      const T step = (m * s.correction1) / denominator;
      exp_avg[i] = m;
      exp_avg_sq[i] = v;
      value[i] = fma_of(-s.learning_rate, step, value[i] * s.decay);
    }
  }
};

template <typename T>
struct Squares {
  CAMBIUM_INLINE static void run(const GrainSquares& a) {
    const T* gradient = a.gradient.as<T>();
    double* squares = a.squares.as<double>();
    const dim_t n = a.gradient.cols;
    for (dim_t grain = 0; grain < a.squares.cols; ++grain) {
      double sum = 0;
      for (dim_t i = grain * a.grain; i < std::min(n, (grain + 1) * a.grain); ++i) {
        const auto g = static_cast<double>(gradient[i]);
        sum = fma_of(g, g, sum);
      }
      squares[grain] = sum;
    }
  }
};

}  // namespace

void adamw_update(Stream&, const AdamWUpdate& a) {
  run_wide<Update>(a.value.dtype, a);
}

void grain_squares(Stream&, const GrainSquares& a) {
  run_wide<Squares>(a.gradient.dtype, a);
}

}  // namespace cambium::kernels::reference
