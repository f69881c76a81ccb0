// kernels/cpu/activation.cpp — SwiGLU, SiLU and GELU in one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/activation.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// An exp and a division cost about as much as this many cheap elements.
constexpr dim_t kCost = 8;

// d silu(z) / dz = s * (1 + z * (1 - s)) with s = sigmoid(z).
HWY_INLINE Floats silu_slope(const Floats& z, const Floats& sigmoid) {
  const Floats one = broadcast(1.0F);
  return sigmoid * fma(z, one - sigmoid, one);
}

template <typename T>
void swiglu_forward_of(Stream& stream, const SwigluForward& a) {
  const Shape shape = shape_of(a.gate, a.up, a.y);
  split_elements(stream, shape, kCost * a.gate.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const T* gate = a.gate.as<T>() + row * a.gate.stride;
    const T* up = a.up.as<T>() + row * a.up.stride;
    T* y = a.y.as<T>() + row * a.y.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      const Floats z = part.load(gate + i);
      part.store((z * sigmoid_of(z)) * part.load(up + i), y + i);
    });
  });
}

void swiglu_forward(Stream& stream, const SwigluForward& a) {
  with_type(a.gate.dtype,
            [&](auto type) CAMBIUM_LAMBDA { swiglu_forward_of<decltype(type)>(stream, a); });
}

template <typename T>
void swiglu_backward_of(Stream& stream, const SwigluBackward& a) {
  const Shape shape = shape_of(a.gate, a.dy, a.up, a.dgate, a.dup);
  split_elements(stream, shape, kCost * a.gate.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const T* dy = a.dy.as<T>() + row * a.dy.stride;
    const T* gate = a.gate.as<T>() + row * a.gate.stride;
    const T* up = a.up.as<T>() + row * a.up.stride;
    T* dgate = a.dgate.as<T>() + row * a.dgate.stride;
    T* dup = a.dup.as<T>() + row * a.dup.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      const Floats z = part.load(gate + i);
      const Floats slope = part.load(dy + i);
      const Floats sigmoid = sigmoid_of(z);
      const Floats for_gate = (slope * part.load(up + i)) * silu_slope(z, sigmoid);
      part.store(for_gate, dgate + i);
      part.store(slope * (z * sigmoid), dup + i);
    });
  });
}

void swiglu_backward(Stream& stream, const SwigluBackward& a) {
  with_type(a.gate.dtype,
            [&](auto type) CAMBIUM_LAMBDA { swiglu_backward_of<decltype(type)>(stream, a); });
}

// y = function(x), element by element.
template <typename T, typename F>
HWY_INLINE void map_elements(Stream& stream, const View& from, const View& to, F function) {
  const Shape shape = shape_of(from, to);
  split_elements(stream, shape, kCost * from.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const T* x = from.as<T>() + row * from.stride;
    T* y = to.as<T>() + row * to.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(function(part.load(x + i)), y + i);
    });
  });
}

// dx = dy * slope(x), element by element.
template <typename T, typename F>
HWY_INLINE void map_slopes(
    Stream& stream, const View& given, const View& at, const View& to, F slope) {
  const Shape shape = shape_of(at, given, to);
  split_elements(stream, shape, kCost * at.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const T* dy = given.as<T>() + row * given.stride;
    const T* x = at.as<T>() + row * at.stride;
    T* dx = to.as<T>() + row * to.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      const Floats z = part.load(x + i);
      part.store(part.load(dy + i) * slope(z), dx + i);
    });
  });
}

void silu_forward(Stream& stream, const SiluForward& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    map_elements<decltype(type)>(
        stream, a.x, a.y, [](const Floats& z) CAMBIUM_LAMBDA { return z * sigmoid_of(z); });
  });
}

void silu_backward(Stream& stream, const SiluBackward& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    map_slopes<decltype(type)>(stream, a.dy, a.x, a.dx, [](const Floats& z) CAMBIUM_LAMBDA {
      return silu_slope(z, sigmoid_of(z));
    });
  });
}

// The constants and the gate of kernels/reference/activation.cpp.
constexpr double kGeluLinear = 1.5957691216057308;
constexpr double kGeluCubic = 0.07135481627260025;

HWY_INLINE Floats gelu_gate_of(const Floats& z, const Floats& square) {
  return sigmoid_of(z * fma(broadcast(static_cast<float>(kGeluCubic)),
                            square,
                            broadcast(static_cast<float>(kGeluLinear))));
}

HWY_INLINE Floats gelu_slope(const Floats& z) {
  const Floats square = z * z;
  const Floats gate = gelu_gate_of(z, square);
  const Floats bend = fma(broadcast(static_cast<float>(3 * kGeluCubic)),
                          square,
                          broadcast(static_cast<float>(kGeluLinear)));
  return fma((z * gate) * (broadcast(1.0F) - gate), bend, gate);
}

void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    map_elements<decltype(type)>(stream, a.x, a.y, [](const Floats& z) CAMBIUM_LAMBDA {
      return z * gelu_gate_of(z, z * z);
    });
  });
}

void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    map_slopes<decltype(type)>(
        stream, a.dy, a.x, a.dx, [](const Floats& z) CAMBIUM_LAMBDA { return gelu_slope(z); });
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(swiglu_forward);
HWY_EXPORT(swiglu_backward);
HWY_EXPORT(silu_forward);
HWY_EXPORT(silu_backward);
HWY_EXPORT(gelu_tanh_forward);
HWY_EXPORT(gelu_tanh_backward);

void swiglu_forward(Stream& stream, const SwigluForward& a) {
  HWY_DYNAMIC_DISPATCH(swiglu_forward)(stream, a);
}

void swiglu_backward(Stream& stream, const SwigluBackward& a) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward)(stream, a);
}

void silu_forward(Stream& stream, const SiluForward& a) {
  HWY_DYNAMIC_DISPATCH(silu_forward)(stream, a);
}

void silu_backward(Stream& stream, const SiluBackward& a) {
  HWY_DYNAMIC_DISPATCH(silu_backward)(stream, a);
}

void gelu_tanh_forward(Stream& stream, const GeluTanhForward& a) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_forward)(stream, a);
}

void gelu_tanh_backward(Stream& stream, const GeluTanhBackward& a) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
