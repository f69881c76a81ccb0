// kernels/reference/activation.cpp — the oracle of every other backend: scalar, f32 and f64.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/activation.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

// d silu(z) / dz = s * (1 + z * (1 - s)) with s = sigmoid(z).
template <typename T>
CAMBIUM_INLINE T silu_slope(T z, T sigmoid) {
  return sigmoid * fma_of(z, T{1} - sigmoid, T{1});
}

template <typename T>
struct SwigluForwardRows {
  CAMBIUM_INLINE static void run(const SwigluForward& a) {
    for (dim_t r = 0; r < a.gate.rows; ++r) {
      const T* gate = a.gate.as<T>() + r * a.gate.stride;
      const T* up = a.up.as<T>() + r * a.up.stride;
      T* y = a.y.as<T>() + r * a.y.stride;
      for (dim_t f = 0; f < a.gate.cols; ++f) {
        y[f] = (gate[f] * sigmoid_of(gate[f])) * up[f];
      }
    }
  }
};

template <typename T>
struct SwigluBackwardRows {
  CAMBIUM_INLINE static void run(const SwigluBackward& a) {
    for (dim_t r = 0; r < a.gate.rows; ++r) {
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T* gate = a.gate.as<T>() + r * a.gate.stride;
      const T* up = a.up.as<T>() + r * a.up.stride;
      T* dgate = a.dgate.as<T>() + r * a.dgate.stride;
      T* dup = a.dup.as<T>() + r * a.dup.stride;
      for (dim_t f = 0; f < a.gate.cols; ++f) {
        const T z = gate[f];
        const T sigmoid = sigmoid_of(z);
        const T for_gate = (dy[f] * up[f]) * silu_slope(z, sigmoid);
        const T for_up = dy[f] * (z * sigmoid);
        dgate[f] = for_gate;
        dup[f] = for_up;
      }
    }
  }
};

template <typename T>
struct SiluForwardRows {
  CAMBIUM_INLINE static void run(const SiluForward& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* x = a.x.as<T>() + r * a.x.stride;
      T* y = a.y.as<T>() + r * a.y.stride;
      for (dim_t f = 0; f < a.x.cols; ++f) {
        y[f] = x[f] * sigmoid_of(x[f]);
      }
    }
  }
};

template <typename T>
struct SiluBackwardRows {
  CAMBIUM_INLINE static void run(const SiluBackward& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const T* dy = a.dy.as<T>() + r * a.dy.stride;
      const T* x = a.x.as<T>() + r * a.x.stride;
      T* dx = a.dx.as<T>() + r * a.dx.stride;
      for (dim_t f = 0; f < a.x.cols; ++f) {
        dx[f] = dy[f] * silu_slope(x[f], sigmoid_of(x[f]));
      }
    }
  }
};

}  // namespace

void swiglu_forward(Stream&, const SwigluForward& a) {
  run_for<SwigluForwardRows>(a.gate.dtype, a);
}

void swiglu_backward(Stream&, const SwigluBackward& a) {
  run_for<SwigluBackwardRows>(a.gate.dtype, a);
}

void silu_forward(Stream&, const SiluForward& a) {
  run_for<SiluForwardRows>(a.x.dtype, a);
}

void silu_backward(Stream&, const SiluBackward& a) {
  run_for<SiluBackwardRows>(a.x.dtype, a);
}

}  // namespace cambium::kernels::reference
