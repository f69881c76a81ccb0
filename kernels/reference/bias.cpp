// kernels/reference/bias.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/bias.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Add {
  CAMBIUM_INLINE static void run(const AddBias& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      for (dim_t d = 0; d < a.x.cols; ++d) {
        const T own = value_at<T>(a.x, r, d) + a.bias.as<T>()[d];
        const bool has_residual = a.residual.data != nullptr;
        put_at<T>(a.y, r, d, has_residual ? value_at<T>(a.residual, r, d) + own : own);
      }
    }
  }
};

template <typename T>
struct ColumnSums {
  CAMBIUM_INLINE static void run(const BiasBackward& a) {
    using W = Wide<T>;
    W* dbias = a.dbias.as<W>();
    for (dim_t r = 0; r < a.dy.rows; ++r) {
      const In<T> dy(a.dy, r);
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dbias[d] += dy[d];
      }
    }
  }
};

}  // namespace

void add_bias(Stream&, const AddBias& a) {
  run_wide<Add>(computed_in(a.x), a);
}

void bias_backward(Stream&, const BiasBackward& a) {
  run_for<ColumnSums>(a.dy.dtype, a);
}

}  // namespace cambium::kernels::reference
