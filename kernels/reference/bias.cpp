// kernels/reference/bias.cpp — the oracle of every other backend: scalar, f32 and f64.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/bias.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Add {
  CAMBIUM_INLINE static void run(const AddBias& a) {
    const T* bias = a.bias.as<T>();
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      T* y = a.y.as<T>() + r * a.y.stride;
      const T* residual =
          a.residual.data == nullptr ? nullptr : a.residual.as<T>() + r * a.residual.stride;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const T own = x[d] + bias[d];
        y[d] = residual == nullptr ? own : residual[d] + own;
      }
    }
  }
};

template <typename T>
struct ColumnSums {
  CAMBIUM_INLINE static void run(const BiasBackward& a) {
    T* dbias = a.dbias.as<T>();
    for (dim_t r = 0; r < a.dy.rows; ++r) {
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dbias[d] += dy[d];
      }
    }
  }
};

}  // namespace

void add_bias(Stream&, const AddBias& a) {
  run_for<Add>(a.x.dtype, a);
}

void bias_backward(Stream&, const BiasBackward& a) {
  run_for<ColumnSums>(a.dy.dtype, a);
}

}  // namespace cambium::kernels::reference
