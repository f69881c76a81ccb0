// kernels/cpu/adamw.cpp — one pass over value, gradient and both moments; four grains of squares
// side by side.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/adamw.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

void adamw_update(Stream& stream, const AdamWUpdate& a) {
  const AdamWScalars<float> s(a);
  float* value = a.value.as<float>();
  const float* gradient = a.gradient.as<float>();
  float* exp_avg = a.exp_avg.as<float>();
  float* exp_avg_sq = a.exp_avg_sq.as<float>();
  split_blocks(stream, a.value.cols, 256, 4 * a.value.cols, [&](int, Range range) HWY_ATTR {
    each_vector(range.begin, range.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
      const Floats g = part.load(gradient + i) * broadcast(s.clip);
      const Floats m =
          fma(broadcast(s.beta1), part.load(exp_avg + i), broadcast(s.one_less_beta1) * g);
      const Floats v =
          fma(broadcast(s.beta2), part.load(exp_avg_sq + i), (broadcast(s.one_less_beta2) * g) * g);
      const Floats denominator = square_root(v * broadcast(s.correction2)) + broadcast(s.eps);
      const Floats step = (m * broadcast(s.correction1)) / denominator;
      part.store(m, exp_avg + i);
      part.store(v, exp_avg_sq + i);
      const Floats decayed = part.load(value + i) * broadcast(s.decay);
      part.store(negative_fma(broadcast(s.learning_rate), step, decayed), value + i);
    });
  });
}

// Four grains a vector of four doubles: each lane is one grain's chain, fed by 4 x 4 transposes.
struct FourGrains {
  using Narrow = hn::FixedTag<float, 4>;
  using Wide = hn::FixedTag<double, 4>;

  const float* first;
  dim_t grain;
  hn::Vec<Wide> sums;

  HWY_INLINE void start(const float* from, dim_t elements) {
    first = from;
    grain = elements;
    sums = hn::Zero(Wide());
  }

  HWY_INLINE void add(hn::Vec<Narrow> column) {
    const auto wide = hn::PromoteTo(Wide(), column);
    sums = hn::MulAdd(wide, wide, sums);
  }

  // Elements i … i+3 of each grain.
  HWY_INLINE void take(dim_t i) {
    const Narrow tag;
    const auto row0 = hn::LoadU(tag, first + i);
    const auto row1 = hn::LoadU(tag, first + grain + i);
    const auto row2 = hn::LoadU(tag, first + 2 * grain + i);
    const auto row3 = hn::LoadU(tag, first + 3 * grain + i);
    const hn::FixedTag<double, 2> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(tag, row0, row1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(tag, row2, row3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row0, row1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row2, row3));
    add(hn::BitCast(tag, hn::InterleaveLower(pairs, low01, low23)));
    add(hn::BitCast(tag, hn::InterleaveUpper(pairs, low01, low23)));
    add(hn::BitCast(tag, hn::InterleaveLower(pairs, high01, high23)));
    add(hn::BitCast(tag, hn::InterleaveUpper(pairs, high01, high23)));
  }

  // The last elements of the grains, then the sums.
  HWY_INLINE void finish(dim_t i, double* squares) {
    alignas(32) double lanes[4];
    hn::Store(sums, Wide(), lanes);
    for (dim_t lane = 0; lane < 4; ++lane) {
      for (dim_t j = i; j < grain; ++j) {
        const auto g = static_cast<double>(first[lane * grain + j]);
        lanes[lane] = __builtin_fma(g, g, lanes[lane]);
      }
      squares[lane] = lanes[lane];
    }
  }
};

// 4 kFours grains: one group's chains hide the latency of the others'.
template <dim_t kFours>
HWY_INLINE void several_grains(const float* first, dim_t grain, double* squares) {
  FourGrains fours[kFours];
  for (dim_t four = 0; four < kFours; ++four) {
    fours[four].start(first + 4 * four * grain, grain);
  }
  dim_t i = 0;
  for (; i + 4 <= grain; i += 4) {
    for (FourGrains& four : fours) {
      four.take(i);
    }
  }
  for (dim_t four = 0; four < kFours; ++four) {
    fours[four].finish(i, squares + 4 * four);
  }
}

double one_grain(const float* first, dim_t n) {
  double sum = 0;
  for (dim_t i = 0; i < n; ++i) {
    const auto g = static_cast<double>(first[i]);
    sum = __builtin_fma(g, g, sum);
  }
  return sum;
}

void grain_squares(Stream& stream, const GrainSquares& a) {
  const dim_t n = a.gradient.cols;
  const float* gradient = a.gradient.as<float>();
  double* squares = a.squares.as<double>();
  split(stream, a.squares.cols, 2 * n, [&](int, Range grains) HWY_ATTR {
    dim_t i = grains.begin;
    for (; i + 16 <= grains.end && (i + 16) * a.grain <= n; i += 16) {
      several_grains<4>(gradient + i * a.grain, a.grain, squares + i);
    }
    for (; i + 4 <= grains.end && (i + 4) * a.grain <= n; i += 4) {
      several_grains<1>(gradient + i * a.grain, a.grain, squares + i);
    }
    for (; i < grains.end; ++i) {
      squares[i] = one_grain(gradient + i * a.grain, std::min(a.grain, n - i * a.grain));
    }
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(adamw_update);
HWY_EXPORT(grain_squares);

void adamw_update(Stream& stream, const AdamWUpdate& a) {
  HWY_DYNAMIC_DISPATCH(adamw_update)(stream, a);
}

void grain_squares(Stream& stream, const GrainSquares& a) {
  HWY_DYNAMIC_DISPATCH(grain_squares)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
