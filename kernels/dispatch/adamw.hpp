// kernels/dispatch/adamw.hpp — what each backend defines for kernels/adamw.hpp. Arguments are
// already checked. Also the scalars of an update, which all backends share: made in f64 without
// libm, rounded once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/adamw.hpp"

namespace cambium::kernels {

// base^exponent by squaring: the same bits on every machine, which libm's pow does not promise.
[[nodiscard]] inline double power(double base, std::int64_t exponent) {
  double result = 1;
  for (double square = base; exponent > 0; exponent /= 2, square *= square) {
    if (exponent % 2 == 1) {
      result *= square;
    }
  }
  return result;
}

template <typename T>
struct AdamWScalars {
  T clip;
  T decay;  // 1 - lr * weight_decay
  T beta1;
  T one_less_beta1;
  T beta2;
  T one_less_beta2;
  T correction1;  // 1 / (1 - beta1^t)
  T correction2;  // 1 / (1 - beta2^t)
  T learning_rate;
  T eps;

  explicit AdamWScalars(const AdamWUpdate& a)
      : clip(static_cast<T>(a.clip)),
        decay(static_cast<T>(1 - a.learning_rate * a.weight_decay)),
        beta1(static_cast<T>(a.beta1)),
        one_less_beta1(static_cast<T>(1 - a.beta1)),
        beta2(static_cast<T>(a.beta2)),
        one_less_beta2(static_cast<T>(1 - a.beta2)),
        correction1(static_cast<T>(1 / (1 - power(a.beta1, a.updates)))),
        correction2(static_cast<T>(1 / (1 - power(a.beta2, a.updates)))),
        learning_rate(static_cast<T>(a.learning_rate)),
        eps(static_cast<T>(a.eps)) {}
};

}  // namespace cambium::kernels

namespace cambium::kernels::reference {

void adamw_update(Stream& stream, const AdamWUpdate& a);
void grain_squares(Stream& stream, const GrainSquares& a);

}  // namespace cambium::kernels::reference

namespace cambium::kernels::cpu {

void adamw_update(Stream& stream, const AdamWUpdate& a);
void grain_squares(Stream& stream, const GrainSquares& a);

}  // namespace cambium::kernels::cpu
