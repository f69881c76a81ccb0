// kernels/reference/layer_norm.cpp — the oracle of every other backend: scalar, f32 and f64.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/layer_norm.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Forward {
  CAMBIUM_INLINE static void run(const LayerNormForward& a) {
    const T* gain = a.gain.as<T>();
    const T* bias = a.bias.as<T>();
    const auto width = static_cast<T>(a.width);
    const auto eps = static_cast<T>(a.eps);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      T* y = a.y.as<T>() + r * a.y.stride;
      LaneSum<T> sum;
      for (dim_t d = 0; d < a.width; ++d) {
        sum.add(d, x[d]);
      }
      const T mean = sum.total() / width;
      LaneSum<T> squares;
      for (dim_t d = 0; d < a.width; ++d) {
        squares.add_product(d, x[d] - mean, x[d] - mean);
      }
      const T inv_std = T{1} / sqrt_of(squares.total() / width + eps);
      a.mean.as<T>()[r] = mean;
      a.inv_std.as<T>()[r] = inv_std;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y[d] = fma_of((x[d] - mean) * inv_std, gain[d], bias[d]);
      }
    }
  }
};

template <typename T>
struct BackwardInput {
  CAMBIUM_INLINE static void run(const LayerNormBackwardInput& a) {
    const T* gain = a.gain.as<T>();
    const auto width = static_cast<T>(a.width);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T* residual =
          a.residual.data == nullptr ? nullptr : a.residual.as<T>() + r * a.residual.stride;
      T* dx = a.dx.as<T>() + r * a.dx.stride;
      const T mean = a.mean.as<T>()[r];
      const T inv_std = a.inv_std.as<T>()[r];
      LaneSum<T> slopes;
      LaneSum<T> dots;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const T slope = dy[d] * gain[d];
        slopes.add(d, slope);
        dots.add_product(d, slope, (x[d] - mean) * inv_std);
      }
      const T pull = slopes.total() / width;
      const T twist = dots.total() / width;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const T slope = dy[d] * gain[d];
        const T inner = d < a.width ? fma_of(-twist, (x[d] - mean) * inv_std, slope - pull) : slope;
        const T own = inv_std * inner;
        dx[d] = residual == nullptr ? own : residual[d] + own;
      }
    }
  }
};

template <typename T>
struct BackwardWeight {
  CAMBIUM_INLINE static void run(const LayerNormBackwardWeight& a) {
    T* dgain = a.dgain.as<T>();
    T* dbias = a.dbias.as<T>();
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T mean = a.mean.as<T>()[r];
      const T inv_std = a.inv_std.as<T>()[r];
      for (dim_t d = 0; d < a.x.cols; ++d) {
        dgain[d] = fma_of(dy[d], (x[d] - mean) * inv_std, dgain[d]);
        dbias[d] += dy[d];
      }
    }
  }
};

}  // namespace

void layer_norm_forward(Stream&, const LayerNormForward& a) {
  run_for<Forward>(a.x.dtype, a);
}

void layer_norm_backward_input(Stream&, const LayerNormBackwardInput& a) {
  run_for<BackwardInput>(a.x.dtype, a);
}

void layer_norm_backward_weight(Stream&, const LayerNormBackwardWeight& a) {
  run_for<BackwardWeight>(a.x.dtype, a);
}

}  // namespace cambium::kernels::reference
