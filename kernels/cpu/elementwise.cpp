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

void add(Stream& stream, const View& a, const View& b, const View& y) {
  const Shape shape = shape_of(y, a, b);
  split_elements(stream, shape, y.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const float* from_a = a.as<float>() + row * a.stride;
    const float* from_b = b.as<float>() + row * b.stride;
    float* to = y.as<float>() + row * y.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(part.load(from_a + i) + part.load(from_b + i), to + i);
    });
  });
}

void scale(Stream& stream, const View& to, double factor) {
  const Floats rounded = broadcast(static_cast<float>(factor));
  split_elements(stream, shape_of(to), to.size(), [&](dim_t row, Range columns) HWY_ATTR {
    float* x = to.as<float>() + row * to.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(part.load(x + i) * rounded, x + i);
    });
  });
}

void gated_residual_forward(Stream& stream, const GatedResidualForward& a) {
  const float* gate = a.gate.as<float>();
  split_elements(stream, {a.x.rows, a.x.cols}, a.x.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const float* x = a.x.as<float>() + row * a.x.stride;
    const float* r = a.r.as<float>() + row * a.r.stride;
    float* y = a.y.as<float>() + row * a.y.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      part.store(fma(part.load(gate + i), part.load(r + i), part.load(x + i)), y + i);
    });
  });
}

void gated_residual_backward_input(Stream& stream, const GatedResidualBackward& a) {
  const float* gate = a.gate.as<float>();
  split_elements(
      stream, {a.dy.rows, a.dy.cols}, a.dy.size(), [&](dim_t row, Range columns) HWY_ATTR {
        const float* dy = a.dy.as<float>() + row * a.dy.stride;
        float* dr = a.dr.as<float>() + row * a.dr.stride;
        each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
          part.store(part.load(gate + i) * part.load(dy + i), dr + i);
        });
      });
}

// Threads split columns: a column's chain over rows is never cut.
void gated_residual_backward_weight(Stream& stream, const GatedResidualBackwardWeight& a) {
  float* dgate = a.dgate.as<float>();
  split_blocks(stream, a.dy.cols, kLanes, a.dy.size(), [&](int, Range columns) HWY_ATTR {
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      Floats sum = part.load(dgate + i);
      for (dim_t row = 0; row < a.dy.rows; ++row) {
        const Floats dy = part.load(a.dy.as<float>() + row * a.dy.stride + i);
        sum = fma(dy, part.load(a.r.as<float>() + row * a.r.stride + i), sum);
      }
      part.store(sum, dgate + i);
    });
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(add);
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
