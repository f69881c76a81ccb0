// kernels/cpu/cross_entropy.cpp — two walks over a row of logits for the statistics, one for the
// gradient.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include <algorithm>
#include <limits>

#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/cross_entropy.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// An exp costs about as much as this many cheap elements.
constexpr dim_t kCost = 6;

HWY_INLINE Floats lowest() {
  return broadcast(-std::numeric_limits<float>::infinity());
}

// See shift_of in kernels/reference/cross_entropy.cpp.
HWY_INLINE Floats shift_of(const Floats& maximum) {
  return select(equal(maximum, lowest()), zeros(), maximum);
}

void statistics_of_row(const CrossEntropyStatistics& a, dim_t row) {
  const dim_t columns = a.logits.cols;
  const float* logits = a.logits.as<float>() + row * a.logits.stride;
  Floats best = lowest();
  each_vector(0, columns, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    best = part.keep(larger(part.load(logits + i), best), best);
  });
  const float maximum = largest_lane(best) + 0.0F;
  const Floats shift = shift_of(broadcast(maximum));
  Floats sums = zeros();
  each_vector(0, columns, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    sums = part.keep(sums + exp_of(part.load(logits + i) - shift), sums);
  });
  const std::int32_t target = a.targets.as<std::int32_t>()[row];
  const dim_t column = target - a.first_row;
  const bool here = target != kIgnore && column >= 0 && column < columns;
  float* statistics = a.statistics.as<float>() + row;
  statistics[0] = maximum;
  statistics[a.statistics.stride] = tree_total(sums);
  statistics[2 * a.statistics.stride] = here ? logits[column] : 0.0F;
}

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a) {
  split(stream, a.logits.rows, kCost * a.logits.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      statistics_of_row(a, row);
    }
  });
}

// The tree of base/tree.hpp over `count` values, in place.
HWY_INLINE Floats tree_sum_of(Floats* values, dim_t count) {
  for (; count > 1 && count % 2 == 0; count /= 2) {
    for (dim_t i = 0; i < count / 2; ++i) {
      values[i] = values[2 * i] + values[2 * i + 1];
    }
  }
  Floats total = values[0];
  for (dim_t i = 1; i < count; ++i) {
    total = total + values[i];
  }
  return total;
}

// 16 rows at a time; `sums` has room for one value a shard.
template <typename Lanes>
HWY_INLINE void combine_rows(const CrossEntropyCombine& a, Floats* sums, dim_t row, Lanes part) {
  const float* statistics = a.statistics.as<float>() + row;
  const dim_t stride = a.statistics.stride;
  Floats maximum = lowest();
  Floats target = zeros();
  for (dim_t s = 0; s < a.shards; ++s) {
    maximum = larger(part.load(statistics + 3 * s * stride), maximum);
    target = target + part.load(statistics + (3 * s + 2) * stride);
  }
  const Floats shift = shift_of(maximum);
  for (dim_t s = 0; s < a.shards; ++s) {
    const Floats factor = exp_of(part.load(statistics + 3 * s * stride) - shift);
    sums[s] = part.load(statistics + (3 * s + 1) * stride) * factor;
  }
  const Floats sum = tree_sum_of(sums, a.shards);
  part.store(maximum, a.maximum.as<float>() + row);
  part.store(sum, a.sum.as<float>() + row);
  part.store(log_of(sum) + (maximum - target), a.loss.as<float>() + row);
}

void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a) {
  const dim_t rows = a.maximum.cols;
  auto* sums =
      static_cast<Floats*>(stream.scratch(0, static_cast<std::size_t>(a.shards) * sizeof(Floats)));
  set_float_mode();
  each_vector(
      0, rows, [&](dim_t row, auto part) CAMBIUM_LAMBDA { combine_rows(a, sums, row, part); });
  for (dim_t row = 0; row < rows; ++row) {
    if (a.targets.as<std::int32_t>()[row] == kIgnore) {
      a.loss.as<float>()[row] = 0;
    }
  }
}

// T: of the gradient.
template <typename T>
void gradient_of_row(const CrossEntropyGradient& a, const View& gradient, dim_t row) {
  const dim_t columns = a.logits.cols;
  const float* logits = a.logits.as<float>() + row * a.logits.stride;
  T* to = gradient.as<T>() + row * gradient.stride;
  const std::int32_t target = a.targets.as<std::int32_t>()[row];
  if (target == kIgnore) {
    std::fill(to, to + columns, T{});
    return;
  }
  const Floats maximum = broadcast(a.maximum.as<float>()[row]);
  const Floats inverse = broadcast(1.0F / a.sum.as<float>()[row]);
  const float weight = a.weight.data == nullptr ? 1.0F : a.weight.as<float>()[row];
  const float factor = static_cast<float>(a.scale) * weight;
  const auto probability = [&](const Floats& logit)
                               CAMBIUM_LAMBDA { return exp_of(logit - maximum) * inverse; };
  const dim_t column = target - a.first_row;
  const bool here = column >= 0 && column < columns;
  alignas(64) T at_target[kLanes];
  if (here) {
    store((probability(broadcast(logits[column])) - broadcast(1.0F)) * broadcast(factor),
          at_target);
  }
  each_vector(0, columns, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    part.store(probability(part.load(logits + i)) * broadcast(factor), to + i);
  });
  if (here) {
    to[column] = at_target[0];
  }
}

void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a) {
  const View& gradient = a.gradient.data == nullptr ? a.logits : a.gradient;
  with_type(gradient.dtype, [&](auto type) CAMBIUM_LAMBDA {
    split(stream, a.logits.rows, kCost * a.logits.size(), [&](int, Range rows) HWY_ATTR {
      for (dim_t row = rows.begin; row < rows.end; ++row) {
        gradient_of_row<decltype(type)>(a, gradient, row);
      }
    });
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(cross_entropy_statistics);
HWY_EXPORT(cross_entropy_combine);
HWY_EXPORT(cross_entropy_gradient);

void cross_entropy_statistics(Stream& stream, const CrossEntropyStatistics& a) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_statistics)(stream, a);
}

void cross_entropy_combine(Stream& stream, const CrossEntropyCombine& a) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_combine)(stream, a);
}

void cross_entropy_gradient(Stream& stream, const CrossEntropyGradient& a) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_gradient)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
