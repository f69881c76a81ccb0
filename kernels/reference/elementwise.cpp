// kernels/reference/elementwise.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/elementwise.hpp"

#include <cstring>

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

char* row_of(const View& v, dim_t r) {
  return static_cast<char*>(v.data) + static_cast<std::size_t>(r * v.stride) * bytes_of(v.dtype);
}

template <typename T>
struct Sum {
  CAMBIUM_INLINE static void run(const View& a, const View& b, const View& y) {
    for (dim_t r = 0; r < y.rows; ++r) {
      for (dim_t c = 0; c < y.cols; ++c) {
        put_at<T>(y, r, c, value_at<T>(a, r, c) + value_at<T>(b, r, c));
      }
    }
  }
};

template <typename T>
struct Convert {
  CAMBIUM_INLINE static void run(const View& from, const View& to) {
    for (dim_t r = 0; r < to.rows; ++r) {
      for (dim_t c = 0; c < to.cols; ++c) {
        put_at<T>(to, r, c, value_at<T>(from, r, c));
      }
    }
  }
};

template <typename T>
struct Scale {
  CAMBIUM_INLINE static void run(const View& to, const double& factor) {
    using W = Wide<T>;
    const auto rounded = static_cast<W>(factor);
    for (dim_t r = 0; r < to.rows; ++r) {
      for (dim_t c = 0; c < to.cols; ++c) {
        Out<T>(to, r).put(c, In<T>(to, r)[c] * rounded);
      }
    }
  }
};

template <typename T>
struct GatedForward {
  CAMBIUM_INLINE static void run(const GatedResidualForward& a) {
    using W = Wide<T>;
    const W* gate = a.gate.as<W>();
    for (dim_t i = 0; i < a.x.rows; ++i) {
      const In<T> x(a.x, i);
      const In<T> r(a.r, i);
      const Out<T> y(a.y, i);
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y.put(d, fma_of(gate[d], r[d], x[d]));
      }
    }
  }
};

template <typename T>
struct GatedBackwardInput {
  CAMBIUM_INLINE static void run(const GatedResidualBackward& a) {
    using W = Wide<T>;
    const W* gate = a.gate.as<W>();
    for (dim_t i = 0; i < a.dy.rows; ++i) {
      const In<T> dy(a.dy, i);
      const Out<T> dr(a.dr, i);
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dr.put(d, gate[d] * dy[d]);
      }
    }
  }
};

template <typename T>
struct GatedBackwardWeight {
  CAMBIUM_INLINE static void run(const GatedResidualBackwardWeight& a) {
    using W = Wide<T>;
    W* dgate = a.dgate.as<W>();
    for (dim_t i = 0; i < a.dy.rows; ++i) {
      const In<T> dy(a.dy, i);
      const In<T> r(a.r, i);
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dgate[d] = fma_of(dy[d], r[d], dgate[d]);
      }
    }
  }
};

}  // namespace

void add_into(Stream&, View to, View from) {
  run_wide<Sum>(computed_in(to, from), to, from, to);
}

void add(Stream&, View a, View b, View y) {
  run_wide<Sum>(computed_in(a, b, y), a, b, y);
}

void copy(Stream&, View from, View to) {
  if (from.dtype != to.dtype) {
    run_wide<Convert>(computed_in(from, to), from, to);
    return;
  }
  for (dim_t r = 0; r < to.rows && to.cols > 0; ++r) {
    std::memmove(
        row_of(to, r), row_of(from, r), static_cast<std::size_t>(to.cols) * bytes_of(to.dtype));
  }
}

void fill_zero(Stream&, View to) {
  for (dim_t r = 0; r < to.rows && to.cols > 0; ++r) {
    std::memset(row_of(to, r), 0, static_cast<std::size_t>(to.cols) * bytes_of(to.dtype));
  }
}

void scale(Stream&, View to, double factor) {
  run_for<Scale>(to.dtype, to, factor);
}

void gated_residual_forward(Stream&, const GatedResidualForward& a) {
  run_for<GatedForward>(a.x.dtype, a);
}

void gated_residual_backward_input(Stream&, const GatedResidualBackward& a) {
  run_for<GatedBackwardInput>(a.dy.dtype, a);
}

void gated_residual_backward_weight(Stream&, const GatedResidualBackwardWeight& a) {
  run_for<GatedBackwardWeight>(a.dy.dtype, a);
}

}  // namespace cambium::kernels::reference
