// kernels/cpu/rms_norm.cpp — a row in two passes, the second from cache; columns split for the
// gain.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/rms_norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rms_norm.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void forward_row(const RmsNormForward& a, dim_t row) {
  const dim_t width = a.x.cols;
  const T* x = a.x.as<T>() + row * a.x.stride;
  const float* gain = a.gain.as<float>();
  T* y = a.y.as<T>() + row * a.y.stride;
  Floats squares = zeros();
  each_vector(0, width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats v = part.load(x + i);
    squares = part.keep(fma(v, v, squares), squares);
  });
  const float mean = tree_total(squares) / static_cast<float>(a.width);
  const float inv_rms = 1.0F / __builtin_sqrtf(mean + static_cast<float>(a.eps));
  a.inv_rms.as<float>()[row] = inv_rms;
  const Floats factor = broadcast(inv_rms);
  each_vector(0, width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    part.store((part.load(x + i) * factor) * part.load(gain + i), y + i);
  });
}

template <typename T>
void rms_norm_forward_of(Stream& stream, const RmsNormForward& a) {
  split(stream, a.x.rows, 2 * a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      forward_row<T>(a, row);
    }
  });
}

void rms_norm_forward(Stream& stream, const RmsNormForward& a) {
  with_type(a.x.dtype,
            [&](auto type) CAMBIUM_LAMBDA { rms_norm_forward_of<decltype(type)>(stream, a); });
}

template <typename T>
void backward_row(const RmsNormBackwardInput& a, dim_t row) {
  const dim_t width = a.x.cols;
  const T* x = a.x.as<T>() + row * a.x.stride;
  const T* dy = a.dy.as<T>() + row * a.dy.stride;
  const float* gain = a.gain.as<float>();
  T* dx = a.dx.as<T>() + row * a.dx.stride;
  Floats dots = zeros();
  each_vector(0, width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats slope = part.load(dy + i) * part.load(gain + i);
    dots = part.keep(fma(slope, part.load(x + i), dots), dots);
  });
  const float inv_rms = a.inv_rms.as<float>()[row];
  const float cube = (inv_rms * inv_rms) * inv_rms;
  const Floats pull = broadcast((cube * tree_total(dots)) / static_cast<float>(a.width));
  const Floats factor = broadcast(inv_rms);
  const auto own = [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats slope = part.load(dy + i) * part.load(gain + i);
    return negative_fma(pull, part.load(x + i), factor * slope);
  };
  if (a.residual.data == nullptr) {
    each_vector(
        0, width, [&](dim_t i, auto part) CAMBIUM_LAMBDA { part.store(own(i, part), dx + i); });
    return;
  }
  const T* residual = a.residual.as<T>() + row * a.residual.stride;
  each_vector(0, width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    part.store(part.load(residual + i) + own(i, part), dx + i);
  });
}

template <typename T>
void rms_norm_backward_input_of(Stream& stream, const RmsNormBackwardInput& a) {
  split(stream, a.x.rows, 3 * a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      backward_row<T>(a, row);
    }
  });
}

void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    rms_norm_backward_input_of<decltype(type)>(stream, a);
  });
}

// Threads split columns: a column's chain over rows is never cut. Four vectors a pass hide the
// fma's latency and take whole cache lines of a row.
template <typename T>
void rms_norm_backward_weight_of(Stream& stream, const RmsNormBackwardWeight& a) {
  float* dgain = a.dgain.as<float>();
  const float* inv_rms = a.inv_rms.as<float>();
  split_blocks(stream, a.x.cols, kLanes, 2 * a.x.size(), [&](int, Range columns) HWY_ATTR {
    dim_t i = columns.begin;
    for (; i + 4 * kLanes <= columns.end; i += 4 * kLanes) {
      Floats sums[4];
      for (dim_t v = 0; v < 4; ++v) {
        sums[v] = load(dgain + i + v * kLanes);
      }
      for (dim_t row = 0; row < a.x.rows; ++row) {
        const T* x = a.x.as<T>() + row * a.x.stride + i;
        const T* dy = a.dy.as<T>() + row * a.dy.stride + i;
        const Floats factor = broadcast(inv_rms[row]);
        for (dim_t v = 0; v < 4; ++v) {
          sums[v] = fma(load(dy + v * kLanes), load(x + v * kLanes) * factor, sums[v]);
        }
      }
      for (dim_t v = 0; v < 4; ++v) {
        store(sums[v], dgain + i + v * kLanes);
      }
    }
    each_vector(i, columns.end, [&](dim_t c, auto part) CAMBIUM_LAMBDA {
      Floats sum = part.load(dgain + c);
      for (dim_t row = 0; row < a.x.rows; ++row) {
        const Floats x = part.load(a.x.as<T>() + row * a.x.stride + c);
        const Floats dy = part.load(a.dy.as<T>() + row * a.dy.stride + c);
        sum = fma(dy, x * broadcast(inv_rms[row]), sum);
      }
      part.store(sum, dgain + c);
    });
  });
}

void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    rms_norm_backward_weight_of<decltype(type)>(stream, a);
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(rms_norm_forward);
HWY_EXPORT(rms_norm_backward_input);
HWY_EXPORT(rms_norm_backward_weight);

void rms_norm_forward(Stream& stream, const RmsNormForward& a) {
  HWY_DYNAMIC_DISPATCH(rms_norm_forward)(stream, a);
}

void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_input)(stream, a);
}

void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_weight)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
