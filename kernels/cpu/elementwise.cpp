// kernels/cpu/elementwise.cpp — sums, copies and the gated residual in vectors.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include <cstring>

#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/elementwise.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename A, typename B, typename Y>
void add_of(Stream& stream, const View& a, const View& b, const View& y) {
  const Shape shape = shape_of(y, a, b);
  split_elements(stream, shape, y.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const A* from_a = a.as<A>() + row * a.stride;
    const B* from_b = b.as<B>() + row * b.stride;
    Y* to = y.as<Y>() + row * y.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(part.load(from_a + i) + part.load(from_b + i), to + i);
    });
  });
}

void add(Stream& stream, const View& a, const View& b, const View& y) {
  with_type(a.dtype, [&](auto of_a) CAMBIUM_LAMBDA {
    with_type(b.dtype, [&](auto of_b) CAMBIUM_LAMBDA {
      with_type(y.dtype, [&](auto of_y) CAMBIUM_LAMBDA {
        add_of<decltype(of_a), decltype(of_b), decltype(of_y)>(stream, a, b, y);
      });
    });
  });
}

template <typename From, typename To>
void convert_of(Stream& stream, const View& from, const View& to) {
  const Shape shape = shape_of(to, from);
  split_elements(stream, shape, to.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const From* x = from.as<From>() + row * from.stride;
    To* y = to.as<To>() + row * to.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(part.load(x + i), y + i);
    });
  });
}

void convert(Stream& stream, const View& from, const View& to) {
  if (from.dtype == device::DType::bf16) {
    convert_of<BFloat16, float>(stream, from, to);
  } else {
    convert_of<float, BFloat16>(stream, from, to);
  }
}

template <typename T>
void scale_of(Stream& stream, const View& to, double factor) {
  const Floats rounded = broadcast(static_cast<float>(factor));
  split_elements(stream, shape_of(to), to.size(), [&](dim_t row, Range columns) HWY_ATTR {
    T* x = to.as<T>() + row * to.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(part.load(x + i) * rounded, x + i);
    });
  });
}

void scale(Stream& stream, const View& to, double factor) {
  with_type(to.dtype,
            [&](auto type) CAMBIUM_LAMBDA { scale_of<decltype(type)>(stream, to, factor); });
}

template <typename T>
void gated_residual_forward_of(Stream& stream, const GatedResidualForward& a) {
  const float* gate = a.gate.as<float>();
  split_elements(stream, {a.x.rows, a.x.cols}, a.x.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const T* x = a.x.as<T>() + row * a.x.stride;
    const T* r = a.r.as<T>() + row * a.r.stride;
    T* y = a.y.as<T>() + row * a.y.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(fma(part.load(gate + i), part.load(r + i), part.load(x + i)), y + i);
    });
  });
}

void gated_residual_forward(Stream& stream, const GatedResidualForward& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    gated_residual_forward_of<decltype(type)>(stream, a);
  });
}

template <typename T>
void gated_residual_backward_input_of(Stream& stream, const GatedResidualBackward& a) {
  const float* gate = a.gate.as<float>();
  split_elements(
      stream, {a.dy.rows, a.dy.cols}, a.dy.size(), [&](dim_t row, Range columns) HWY_ATTR {
        const T* dy = a.dy.as<T>() + row * a.dy.stride;
        T* dr = a.dr.as<T>() + row * a.dr.stride;
        each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
          part.store(part.load(gate + i) * part.load(dy + i), dr + i);
        });
      });
}

void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a) {
  with_type(a.dy.dtype, [&](auto type) CAMBIUM_LAMBDA {
    gated_residual_backward_input_of<decltype(type)>(stream, a);
  });
}

// Threads split columns: a column's chain over rows is never cut.
template <typename T>
void gated_residual_backward_weight_of(Stream& stream, const GatedResidualBackwardWeight& a) {
  float* dgate = a.dgate.as<float>();
  split_blocks(stream, a.dy.cols, kLanes, a.dy.size(), [&](int, Range columns) HWY_ATTR {
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      Floats sum = part.load(dgate + i);
      for (dim_t row = 0; row < a.dy.rows; ++row) {
        const Floats dy = part.load(a.dy.as<T>() + row * a.dy.stride + i);
        sum = fma(dy, part.load(a.r.as<T>() + row * a.r.stride + i), sum);
      }
      part.store(sum, dgate + i);
    });
  });
}

void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a) {
  with_type(a.dy.dtype, [&](auto type) CAMBIUM_LAMBDA {
    gated_residual_backward_weight_of<decltype(type)>(stream, a);
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(add);
HWY_EXPORT(convert);
HWY_EXPORT(scale);
HWY_EXPORT(gated_residual_forward);
HWY_EXPORT(gated_residual_backward_input);
HWY_EXPORT(gated_residual_backward_weight);

namespace {

char* place(const View& v, dim_t row, dim_t column) {
  return static_cast<char*>(v.data) +
         static_cast<std::size_t>(row * v.stride + column) * bytes_of(v.dtype);
}

}  // namespace

void add_into(Stream& stream, View to, View from) {
  HWY_DYNAMIC_DISPATCH(add)(stream, to, from, to);
}

void add(Stream& stream, View a, View b, View y) {
  HWY_DYNAMIC_DISPATCH(add)(stream, a, b, y);
}

void copy(Stream& stream, View from, View to) {
  if (from.dtype != to.dtype) {
    HWY_DYNAMIC_DISPATCH(convert)(stream, from, to);
    return;
  }
  split_elements(stream, shape_of(to, from), to.size(), [&](dim_t row, Range columns) {
    const auto bytes = static_cast<std::size_t>(columns.size()) * bytes_of(to.dtype);
    std::memmove(place(to, row, columns.begin), place(from, row, columns.begin), bytes);
  });
}

void fill_zero(Stream& stream, View to) {
  split_elements(stream, shape_of(to), to.size(), [&](dim_t row, Range columns) {
    const auto bytes = static_cast<std::size_t>(columns.size()) * bytes_of(to.dtype);
    std::memset(place(to, row, columns.begin), 0, bytes);
  });
}

void scale(Stream& stream, View to, double factor) {
  HWY_DYNAMIC_DISPATCH(scale)(stream, to, factor);
}

void gated_residual_forward(Stream& stream, const GatedResidualForward& a) {
  HWY_DYNAMIC_DISPATCH(gated_residual_forward)(stream, a);
}

void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a) {
  HWY_DYNAMIC_DISPATCH(gated_residual_backward_input)(stream, a);
}

void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a) {
  HWY_DYNAMIC_DISPATCH(gated_residual_backward_weight)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
