// kernels/reference/activation.cpp — the oracle of every other backend: scalar.
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

// 2 sqrt(2/pi), and 0.044715 times it.
constexpr double kGeluLinear = 1.5957691216057308;
constexpr double kGeluCubic = 0.07135481627260025;

// (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) / 2.
template <typename T>
CAMBIUM_INLINE T gelu_gate_of(T z) {
  return sigmoid_of(z * fma_of(static_cast<T>(kGeluCubic), z * z, static_cast<T>(kGeluLinear)));
}

template <typename T>
struct SwigluForwardRows {
  CAMBIUM_INLINE static void run(const SwigluForward& a) {
    for (dim_t r = 0; r < a.gate.rows; ++r) {
      const In<T> gate(a.gate, r);
      const In<T> up(a.up, r);
      const Out<T> y(a.y, r);
      for (dim_t f = 0; f < a.gate.cols; ++f) {
        y.put(f, (gate[f] * sigmoid_of(gate[f])) * up[f]);
      }
    }
  }
};

template <typename T>
struct SwigluBackwardRows {
  CAMBIUM_INLINE static void run(const SwigluBackward& a) {
    using W = Wide<T>;
    for (dim_t r = 0; r < a.gate.rows; ++r) {
      const In<T> dy(a.dy, r);
      const In<T> gate(a.gate, r);
      const In<T> up(a.up, r);
      const Out<T> dgate(a.dgate, r);
      const Out<T> dup(a.dup, r);
      for (dim_t f = 0; f < a.gate.cols; ++f) {
        const W z = gate[f];
        const W sigmoid = sigmoid_of(z);
        const W for_gate = (dy[f] * up[f]) * silu_slope(z, sigmoid);
        const W for_up = dy[f] * (z * sigmoid);
        dgate.put(f, for_gate);
        dup.put(f, for_up);
      }
    }
  }
};

template <typename T>
struct SiluForwardRows {
  CAMBIUM_INLINE static void run(const SiluForward& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const Out<T> y(a.y, r);
      for (dim_t f = 0; f < a.x.cols; ++f) {
        y.put(f, x[f] * sigmoid_of(x[f]));
      }
    }
  }
};

template <typename T>
struct SiluBackwardRows {
  CAMBIUM_INLINE static void run(const SiluBackward& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> dy(a.dy, r);
      const In<T> x(a.x, r);
      const Out<T> dx(a.dx, r);
      for (dim_t f = 0; f < a.x.cols; ++f) {
        dx.put(f, dy[f] * silu_slope(x[f], sigmoid_of(x[f])));
      }
    }
  }
};

template <typename T>
struct GeluTanhForwardRows {
  CAMBIUM_INLINE static void run(const GeluTanhForward& a) {
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> x(a.x, r);
      const Out<T> y(a.y, r);
      for (dim_t f = 0; f < a.x.cols; ++f) {
        y.put(f, x[f] * gelu_gate_of(x[f]));
      }
    }
  }
};

template <typename T>
struct GeluTanhBackwardRows {
  CAMBIUM_INLINE static void run(const GeluTanhBackward& a) {
    using W = Wide<T>;
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const In<T> dy(a.dy, r);
      const In<T> x(a.x, r);
      const Out<T> dx(a.dx, r);
      for (dim_t f = 0; f < a.x.cols; ++f) {
        const W z = x[f];
        const W gate = gelu_gate_of(z);
        const W bend = fma_of(static_cast<W>(3 * kGeluCubic), z * z, static_cast<W>(kGeluLinear));
        dx.put(f, dy[f] * fma_of((z * gate) * (W{1} - gate), bend, gate));
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

void gelu_tanh_forward(Stream&, const GeluTanhForward& a) {
  run_for<GeluTanhForwardRows>(a.x.dtype, a);
}

void gelu_tanh_backward(Stream&, const GeluTanhBackward& a) {
  run_for<GeluTanhBackwardRows>(a.x.dtype, a);
}

}  // namespace cambium::kernels::reference
