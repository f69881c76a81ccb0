// kernels/reference/rms_norm.cpp — the oracle of every other backend: scalar, f32 and f64.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rms_norm.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Forward {
  CAMBIUM_INLINE static void run(const RmsNormForward& a) {
    const T* gain = a.gain.as<T>();
    const auto width = static_cast<T>(a.width);
    const auto eps = static_cast<T>(a.eps);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      T* y = a.y.as<T>() + r * a.y.stride;
      LaneSum<T> squares;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        squares.add_product(d, x[d], x[d]);
      }
      const T inv_rms = T{1} / sqrt_of(squares.total() / width + eps);
      a.inv_rms.as<T>()[r] = inv_rms;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y[d] = (x[d] * inv_rms) * gain[d];
      }
    }
  }
};

template <typename T>
struct BackwardInput {
  CAMBIUM_INLINE static void run(const RmsNormBackwardInput& a) {
    const T* gain = a.gain.as<T>();
    const auto width = static_cast<T>(a.width);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T* residual =
          a.residual.data == nullptr ? nullptr : a.residual.as<T>() + r * a.residual.stride;
      T* dx = a.dx.as<T>() + r * a.dx.stride;
      const T inv_rms = a.inv_rms.as<T>()[r];
      LaneSum<T> dots;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        dots.add_product(d, dy[d] * gain[d], x[d]);
      }
      const T pull = (((inv_rms * inv_rms) * inv_rms) * dots.total()) / width;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const T own = fma_of(-pull, x[d], inv_rms * (dy[d] * gain[d]));
        dx[d] = residual == nullptr ? own : residual[d] + own;
      }
    }
  }
};

template <typename T>
struct BackwardWeight {
  CAMBIUM_INLINE static void run(const RmsNormBackwardWeight& a) {
    T* dgain = a.dgain.as<T>();
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T inv_rms = a.inv_rms.as<T>()[r];
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
