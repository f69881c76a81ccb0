// kernels/reference/rope.cpp — the oracle of every other backend: scalar, f32 and f64.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rope.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Rotate {
  CAMBIUM_INLINE static void run(const Rope& a, const Turn& turn) {
    const dim_t half = a.head_width / 2;
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* cosine = a.cosine.as<T>() + r / a.batch * a.cosine.stride;
      const T* sine = a.sine.as<T>() + r / a.batch * a.sine.stride;
      for (dim_t first = 0; first < a.x.cols; first += a.head_width) {
        T* low = a.x.as<T>() + r * a.x.stride + first;
        T* high = low + half;
        for (dim_t e = 0; e < half; ++e) {
          const T s = turn == Turn::forward ? sine[e] : -sine[e];
          const T lo = low[e];
          const T hi = high[e];
          low[e] = fma_of(lo, cosine[e], -(hi * s));
          high[e] = fma_of(hi, cosine[e], lo * s);
        }
      }
    }
  }
};

}  // namespace

void rope(Stream&, const Rope& a, Turn turn) {
  run_for<Rotate>(a.x.dtype, a, turn);
}

}  // namespace cambium::kernels::reference
