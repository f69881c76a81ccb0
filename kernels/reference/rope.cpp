// kernels/reference/rope.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/rope.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Rotate {
  CAMBIUM_INLINE static void run(const Rope& a, const Turn& turn) {
    using W = Wide<T>;
    const dim_t half = a.head_width / 2;
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const W* cosine = a.cosine.as<W>() + r / a.batch * a.cosine.stride;
      const W* sine = a.sine.as<W>() + r / a.batch * a.sine.stride;
      const In<T> x(a.x, r);
      const Out<T> turned(a.x, r);
      for (dim_t first = 0; first < a.x.cols; first += a.head_width) {
        for (dim_t e = 0; e < half; ++e) {
          const W s = turn == Turn::forward ? sine[e] : -sine[e];
          const W lo = x[first + e];
          const W hi = x[first + half + e];
          turned.put(first + e, fma_of(lo, cosine[e], -(hi * s)));
          turned.put(first + half + e, fma_of(hi, cosine[e], lo * s));
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
