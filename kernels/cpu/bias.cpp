// kernels/cpu/bias.cpp — rows with a bias; its gradient in column blocks.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/bias.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bias.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename X, typename R, typename Y>
void add_bias_of(Stream& stream, const AddBias& a) {
  const float* bias = a.bias.as<float>();
  split_elements(stream, {a.x.rows, a.x.cols}, a.x.size(), [&](dim_t row, Range columns) HWY_ATTR {
    const X* x = a.x.as<X>() + row * a.x.stride;
    Y* y = a.y.as<Y>() + row * a.y.stride;
    if (a.residual.data == nullptr) {
      each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
        part.store(part.load(x + i) + part.load(bias + i), y + i);
      });
      return;
    }
    const R* residual = a.residual.as<R>() + row * a.residual.stride;
    each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      const Floats own = part.load(x + i) + part.load(bias + i);
      part.store(part.load(residual + i) + own, y + i);
    });
  });
}

void add_bias(Stream& stream, const AddBias& a) {
  with_type(a.x.dtype, [&](auto x) CAMBIUM_LAMBDA {
    with_type(a.residual.dtype, [&](auto r) CAMBIUM_LAMBDA {
      with_type(a.y.dtype, [&](auto y) CAMBIUM_LAMBDA {
        add_bias_of<decltype(x), decltype(r), decltype(y)>(stream, a);
      });
    });
  });
}

// Threads split columns: a column's chain over rows is never cut. Four vectors a pass hide the
// addition's latency and take whole cache lines of a row.
template <typename T>
void bias_backward_of(Stream& stream, const BiasBackward& a) {
  float* dbias = a.dbias.as<float>();
  split_blocks(stream, a.dy.cols, kLanes, a.dy.size(), [&](int, Range columns) HWY_ATTR {
    dim_t i = columns.begin;
    for (; i + 4 * kLanes <= columns.end; i += 4 * kLanes) {
      Floats sums[4];
      for (dim_t v = 0; v < 4; ++v) {
        sums[v] = load(dbias + i + v * kLanes);
      }
      for (dim_t row = 0; row < a.dy.rows; ++row) {
        const T* dy = a.dy.as<T>() + row * a.dy.stride + i;
        for (dim_t v = 0; v < 4; ++v) {
          sums[v] = sums[v] + load(dy + v * kLanes);
        }
      }
      for (dim_t v = 0; v < 4; ++v) {
        store(sums[v], dbias + i + v * kLanes);
      }
    }
    each_vector(i, columns.end, [&](dim_t c, auto part) CAMBIUM_LAMBDA {
      Floats sum = part.load(dbias + c);
      for (dim_t row = 0; row < a.dy.rows; ++row) {
        sum = sum + part.load(a.dy.as<T>() + row * a.dy.stride + c);
      }
      part.store(sum, dbias + c);
    });
  });
}

void bias_backward(Stream& stream, const BiasBackward& a) {
  with_type(a.dy.dtype,
            [&](auto type) CAMBIUM_LAMBDA { bias_backward_of<decltype(type)>(stream, a); });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(add_bias);
HWY_EXPORT(bias_backward);

void add_bias(Stream& stream, const AddBias& a) {
  HWY_DYNAMIC_DISPATCH(add_bias)(stream, a);
}

void bias_backward(Stream& stream, const BiasBackward& a) {
  HWY_DYNAMIC_DISPATCH(bias_backward)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
