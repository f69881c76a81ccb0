// kernels/cpu/layer_norm.cpp — a row in three passes, the later ones from cache; columns split for
// gain and bias.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/layer_norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void forward_row(const LayerNormForward& a, dim_t row) {
  const T* x = a.x.as<T>() + row * a.x.stride;
  const float* gain = a.gain.as<float>();
  const float* bias = a.bias.as<float>();
  T* y = a.y.as<T>() + row * a.y.stride;
  const auto width = static_cast<float>(a.width);
  Floats sum = zeros();
  each_vector(0, a.width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    sum = part.keep(sum + part.load(x + i), sum);
  });
  const float mean_of_row = tree_total(sum) / width;
  const Floats mean = broadcast(mean_of_row);
  Floats squares = zeros();
  each_vector(0, a.width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats away = part.load(x + i) - mean;
    squares = part.keep(fma(away, away, squares), squares);
  });
  const float variance = tree_total(squares) / width;
  const float inv_std = 1.0F / __builtin_sqrtf(variance + static_cast<float>(a.eps));
  a.mean.as<float>()[row] = mean_of_row;
  a.inv_std.as<float>()[row] = inv_std;
  const Floats factor = broadcast(inv_std);
  each_vector(0, a.x.cols, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats normal = (part.load(x + i) - mean) * factor;
    part.store(fma(normal, part.load(gain + i), part.load(bias + i)), y + i);
  });
}

template <typename T>
void layer_norm_forward_of(Stream& stream, const LayerNormForward& a) {
  split(stream, a.x.rows, 3 * a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      forward_row<T>(a, row);
    }
  });
}

void layer_norm_forward(Stream& stream, const LayerNormForward& a) {
  with_type(a.x.dtype,
            [&](auto type) CAMBIUM_LAMBDA { layer_norm_forward_of<decltype(type)>(stream, a); });
}

template <typename T>
void backward_row(const LayerNormBackwardInput& a, dim_t row) {
  const T* x = a.x.as<T>() + row * a.x.stride;
  const T* dy = a.dy.as<T>() + row * a.dy.stride;
  const float* gain = a.gain.as<float>();
  const T* residual =
      a.residual.data == nullptr ? nullptr : a.residual.as<T>() + row * a.residual.stride;
  T* dx = a.dx.as<T>() + row * a.dx.stride;
  const auto width = static_cast<float>(a.width);
  const Floats mean = broadcast(a.mean.as<float>()[row]);
  const Floats factor = broadcast(a.inv_std.as<float>()[row]);
  Floats slopes = zeros();
  Floats dots = zeros();
  each_vector(0, a.x.cols, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats slope = part.load(dy + i) * part.load(gain + i);
    slopes = part.keep(slopes + slope, slopes);
    dots = part.keep(fma(slope, (part.load(x + i) - mean) * factor, dots), dots);
  });
  const Floats pull = broadcast(tree_total(slopes) / width);
  const Floats twist = broadcast(tree_total(dots) / width);
  const auto finish = [&](dim_t i, auto part, const Floats& own) CAMBIUM_LAMBDA {
    part.store(residual == nullptr ? own : part.load(residual + i) + own, dx + i);
  };
  each_vector(0, a.width, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats slope = part.load(dy + i) * part.load(gain + i);
    const Floats normal = (part.load(x + i) - mean) * factor;
    finish(i, part, factor * negative_fma(twist, normal, slope - pull));
  });
  each_vector(a.width, a.x.cols, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    finish(i, part, factor * (part.load(dy + i) * part.load(gain + i)));
  });
}

template <typename T>
void layer_norm_backward_input_of(Stream& stream, const LayerNormBackwardInput& a) {
  split(stream, a.x.rows, 4 * a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      backward_row<T>(a, row);
    }
  });
}

void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    layer_norm_backward_input_of<decltype(type)>(stream, a);
  });
}

// Threads split columns: a column's chains over rows are never cut. Four vectors a pass hide the
// fma's latency and take whole cache lines of a row.
template <typename T>
void layer_norm_backward_weight_of(Stream& stream, const LayerNormBackwardWeight& a) {
  float* dgain = a.dgain.as<float>();
  float* dbias = a.dbias.as<float>();
  const float* means = a.mean.as<float>();
  const float* inv_std = a.inv_std.as<float>();
  split_blocks(stream, a.x.cols, kLanes, 3 * a.x.size(), [&](int, Range columns) HWY_ATTR {
    dim_t i = columns.begin;
    for (; i + 4 * kLanes <= columns.end; i += 4 * kLanes) {
      Floats gains[4];
      Floats biases[4];
      for (dim_t v = 0; v < 4; ++v) {
        gains[v] = load(dgain + i + v * kLanes);
        biases[v] = load(dbias + i + v * kLanes);
      }
      for (dim_t row = 0; row < a.x.rows; ++row) {
        const T* x = a.x.as<T>() + row * a.x.stride + i;
        const T* dy = a.dy.as<T>() + row * a.dy.stride + i;
        const Floats mean = broadcast(means[row]);
        const Floats factor = broadcast(inv_std[row]);
        for (dim_t v = 0; v < 4; ++v) {
          const Floats slope = load(dy + v * kLanes);
          gains[v] = fma(slope, (load(x + v * kLanes) - mean) * factor, gains[v]);
          biases[v] = biases[v] + slope;
        }
      }
      for (dim_t v = 0; v < 4; ++v) {
        store(gains[v], dgain + i + v * kLanes);
        store(biases[v], dbias + i + v * kLanes);
      }
    }
    each_vector(i, columns.end, [&](dim_t c, auto part) CAMBIUM_LAMBDA {
      Floats gain = part.load(dgain + c);
      Floats bias = part.load(dbias + c);
      for (dim_t row = 0; row < a.x.rows; ++row) {
        const Floats x = part.load(a.x.as<T>() + row * a.x.stride + c);
        const Floats slope = part.load(a.dy.as<T>() + row * a.dy.stride + c);
        gain = fma(slope, (x - broadcast(means[row])) * broadcast(inv_std[row]), gain);
        bias = bias + slope;
      }
      part.store(gain, dgain + c);
      part.store(bias, dbias + c);
    });
  });
}

void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a) {
  with_type(a.x.dtype, [&](auto type) CAMBIUM_LAMBDA {
    layer_norm_backward_weight_of<decltype(type)>(stream, a);
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(layer_norm_forward);
HWY_EXPORT(layer_norm_backward_input);
HWY_EXPORT(layer_norm_backward_weight);

void layer_norm_forward(Stream& stream, const LayerNormForward& a) {
  HWY_DYNAMIC_DISPATCH(layer_norm_forward)(stream, a);
}

void layer_norm_backward_input(Stream& stream, const LayerNormBackwardInput& a) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_input)(stream, a);
}

void layer_norm_backward_weight(Stream& stream, const LayerNormBackwardWeight& a) {
  HWY_DYNAMIC_DISPATCH(layer_norm_backward_weight)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
