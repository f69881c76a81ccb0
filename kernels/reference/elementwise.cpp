// kernels/reference/elementwise.cpp — the oracle of every other backend: scalar, f32 and f64.
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
        y.as<T>()[r * y.stride + c] = a.as<T>()[r * a.stride + c] + b.as<T>()[r * b.stride + c];
      }
    }
  }
};

template <typename T>
struct Scale {
  CAMBIUM_INLINE static void run(const View& to, const double& factor) {
    const auto rounded = static_cast<T>(factor);
    for (dim_t r = 0; r < to.rows; ++r) {
      for (dim_t c = 0; c < to.cols; ++c) {
        to.as<T>()[r * to.stride + c] *= rounded;
      }
    }
  }
};

template <typename T>
struct GatedForward {
  CAMBIUM_INLINE static void run(const GatedResidualForward& a) {
    const T* gate = a.gate.as<T>();
    for (dim_t i = 0; i < a.x.rows; ++i) {
      const T* x = a.x.as<T>() + i * a.x.stride;
      const T* r = a.r.as<T>() + i * a.r.stride;
      T* y = a.y.as<T>() + i * a.y.stride;
      for (dim_t d = 0; d < a.x.cols; ++d) {
        y[d] = fma_of(gate[d], r[d], x[d]);
      }
    }
  }
};

template <typename T>
struct GatedBackwardInput {
  CAMBIUM_INLINE static void run(const GatedResidualBackward& a) {
    const T* gate = a.gate.as<T>();
    for (dim_t i = 0; i < a.dy.rows; ++i) {
      const T* dy = a.dy.as<T>() + i * a.dy.stride;
      T* dr = a.dr.as<T>() + i * a.dr.stride;
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dr[d] = gate[d] * dy[d];
      }
    }
  }
};

template <typename T>
struct GatedBackwardWeight {
  CAMBIUM_INLINE static void run(const GatedResidualBackwardWeight& a) {
    T* dgate = a.dgate.as<T>();
    for (dim_t i = 0; i < a.dy.rows; ++i) {
      const T* dy = a.dy.as<T>() + i * a.dy.stride;
      const T* r = a.r.as<T>() + i * a.r.stride;
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        dgate[d] = fma_of(dy[d], r[d], dgate[d]);
      }
    }
  }
};

}  // namespace

void add_into(Stream&, View to, View from) {
  run_for<Sum>(to.dtype, to, from, to);
}

void add(Stream&, View a, View b, View y) {
  run_for<Sum>(y.dtype, a, b, y);
}

void copy(Stream&, View from, View to) {
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
