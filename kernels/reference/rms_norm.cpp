// kernels/reference/rms_norm.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rms_norm.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Forward {
  CAMBIUM_INLINE static void run(const RmsNormForward& a) {
    using W = Wide<T>;
    const W* gain = a.gain.as<W>();
    const auto width = static_cast<W>(a.width);
    const auto eps = static_cast<W>(a.eps);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const Out<T> y(a.y, r);
      LaneSum<W> squares;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        squares.add_product(d, x[d], x[d]);
      }
      const W inv_rms = W{1} / sqrt_of(squares.total() / width + eps);
      a.inv_rms.as<W>()[r] = inv_rms;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y.put(d, (x[d] * inv_rms) * gain[d]);
      }
    }
  }
};

template <typename T>
struct BackwardInput {
  CAMBIUM_INLINE static void run(const RmsNormBackwardInput& a) {
    using W = Wide<T>;
    const W* gain = a.gain.as<W>();
    const auto width = static_cast<W>(a.width);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const In<T> dy(a.dy, r);
      const bool has_residual = a.residual.data != nullptr;
      const In<T> residual(has_residual ? a.residual : a.dy, r);
      const Out<T> dx(a.dx, r);
      const W inv_rms = a.inv_rms.as<W>()[r];
      LaneSum<W> dots;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        dots.add_product(d, dy[d] * gain[d], x[d]);
      }
      const W pull = (((inv_rms * inv_rms) * inv_rms) * dots.total()) / width;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const W own = fma_of(-pull, x[d], inv_rms * (dy[d] * gain[d]));
        dx.put(d, has_residual ? residual[d] + own : own);
      }
    }
  }
};

template <typename T>
struct BackwardWeight {
  CAMBIUM_INLINE static void run(const RmsNormBackwardWeight& a) {
    using W = Wide<T>;
    W* dgain = a.dgain.as<W>();
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const In<T> dy(a.dy, r);
      const W inv_rms = a.inv_rms.as<W>()[r];
      for (dim_t d = 0; d < a.x.cols; ++d) {
        dgain[d] = fma_of(dy[d], x[d] * inv_rms, dgain[d]);
      }
    }
  }
};

}  // namespace

void rms_norm_forward(Stream&, const RmsNormForward& a) {
  run_for<Forward>(a.x.dtype, a);
}

void rms_norm_backward_input(Stream&, const RmsNormBackwardInput& a) {
  run_for<BackwardInput>(a.x.dtype, a);
}

void rms_norm_backward_weight(Stream&, const RmsNormBackwardWeight& a) {
  run_for<BackwardWeight>(a.x.dtype, a);
}

}  // namespace cambium::kernels::reference
