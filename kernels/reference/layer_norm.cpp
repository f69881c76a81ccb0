// kernels/reference/layer_norm.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/layer_norm.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Forward {
  CAMBIUM_INLINE static void run(const LayerNormForward& a) {
    using W = Wide<T>;
    const W* gain = a.gain.as<W>();
    const W* bias = a.bias.as<W>();
    const auto width = static_cast<W>(a.width);
    const auto eps = static_cast<W>(a.eps);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const Out<T> y(a.y, r);
      LaneSum<W> sum;
      for (dim_t d = 0; d < a.width; ++d) {
        sum.add(d, x[d]);
      }
      const W mean = sum.total() / width;
      LaneSum<W> squares;
      for (dim_t d = 0; d < a.width; ++d) {
        squares.add_product(d, x[d] - mean, x[d] - mean);
      }
      const W inv_std = W{1} / sqrt_of(squares.total() / width + eps);
      a.mean.as<W>()[r] = mean;
      a.inv_std.as<W>()[r] = inv_std;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y.put(d, fma_of((x[d] - mean) * inv_std, gain[d], bias[d]));
      }
    }
  }
};

template <typename T>
struct BackwardInput {
  CAMBIUM_INLINE static void run(const LayerNormBackwardInput& a) {
    using W = Wide<T>;
    const W* gain = a.gain.as<W>();
    const auto width = static_cast<W>(a.width);
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const In<T> dy(a.dy, r);
      const bool has_residual = a.residual.data != nullptr;
      const In<T> residual(has_residual ? a.residual : a.dy, r);
      const Out<T> dx(a.dx, r);
      const W mean = a.mean.as<W>()[r];
      const W inv_std = a.inv_std.as<W>()[r];
      LaneSum<W> slopes;
      LaneSum<W> dots;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const W slope = dy[d] * gain[d];
        slopes.add(d, slope);
        dots.add_product(d, slope, (x[d] - mean) * inv_std);
      }
      const W pull = slopes.total() / width;
      const W twist = dots.total() / width;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const W slope = dy[d] * gain[d];
        const W inner = d < a.width ? fma_of(-twist, (x[d] - mean) * inv_std, slope - pull) : slope;
        const W own = inv_std * inner;
        dx.put(d, has_residual ? residual[d] + own : own);
      }
    }
  }
};

template <typename T>
struct BackwardWeight {
  CAMBIUM_INLINE static void run(const LayerNormBackwardWeight& a) {
    using W = Wide<T>;
    W* dgain = a.dgain.as<W>();
    W* dbias = a.dbias.as<W>();
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const In<T> dy(a.dy, r);
      const W mean = a.mean.as<W>()[r];
      const W inv_std = a.inv_std.as<W>()[r];
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
