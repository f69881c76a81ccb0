// kernels/reference/cross_entropy.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/cross_entropy.hpp"

#include <limits>
#include <vector>

#include "base/tree.hpp"
#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

// What is subtracted before exp: an empty or wholly masked shard has the maximum -infinity, and
// -inf - -inf is NaN.
template <typename T>
CAMBIUM_INLINE T shift_of(T maximum) {
  return maximum == -std::numeric_limits<T>::infinity() ? T{0} : maximum;
}

template <typename T>
struct Statistics {
  CAMBIUM_INLINE static void run(const CrossEntropyStatistics& a) {
    for (dim_t r = 0; r < a.logits.rows; ++r) {
      const T* logits = a.logits.as<T>() + r * a.logits.stride;
      T maximum = -std::numeric_limits<T>::infinity();
      for (dim_t v = 0; v < a.logits.cols; ++v) {
        maximum = larger(logits[v], maximum);
      }
      maximum =
          maximum + T{0};  // a maximum of -0 becomes +0: which zero wins would depend on the order
      LaneSum<T> sum;
      const T shift = shift_of(maximum);
      for (dim_t v = 0; v < a.logits.cols; ++v) {
        sum.add(v, exp_of(logits[v] - shift));
      }
      const std::int32_t target = a.targets.as<std::int32_t>()[r];
      const dim_t column = target - a.first_row;
      const bool here = target != kIgnore && column >= 0 && column < a.logits.cols;
      T* statistics = a.statistics.as<T>() + r;
      statistics[0] = maximum;
      statistics[a.statistics.stride] = sum.total();
      statistics[2 * a.statistics.stride] = here ? logits[column] : T{0};
    }
  }
};

template <typename T>
struct Combine {
  CAMBIUM_INLINE static void run(const CrossEntropyCombine& a) {
    std::vector<T> sums(static_cast<std::size_t>(a.shards));
    const dim_t stride = a.statistics.stride;
    for (dim_t r = 0; r < a.maximum.cols; ++r) {
      const T* statistics = a.statistics.as<T>() + r;
      T maximum = -std::numeric_limits<T>::infinity();
      T target = 0;
      for (dim_t s = 0; s < a.shards; ++s) {
        maximum = larger(statistics[3 * s * stride], maximum);
        target += statistics[(3 * s + 2) * stride];
      }
      const T shift = shift_of(maximum);
      for (dim_t s = 0; s < a.shards; ++s) {
        const T factor = exp_of(statistics[3 * s * stride] - shift);
        sums[static_cast<std::size_t>(s)] = statistics[(3 * s + 1) * stride] * factor;
      }
      const T sum = tree_sum(sums);
      const bool ignored = a.targets.as<std::int32_t>()[r] == kIgnore;
      a.maximum.as<T>()[r] = maximum;
      a.sum.as<T>()[r] = sum;
      a.loss.as<T>()[r] = ignored ? T{0} : log_of(sum) + (maximum - target);
    }
  }
};

// T: of the logits; the gradient may be bf16.
template <typename T>
struct Gradient {
  CAMBIUM_INLINE static void run(const CrossEntropyGradient& a) {
    const View& to = a.gradient.data == nullptr ? a.logits : a.gradient;
    for (dim_t r = 0; r < a.logits.rows; ++r) {
      const T* logits = a.logits.as<T>() + r * a.logits.stride;
      const std::int32_t target = a.targets.as<std::int32_t>()[r];
      if (target == kIgnore) {
        for (dim_t v = 0; v < a.logits.cols; ++v) {
          put_at<T>(to, r, v, T{0});
        }
        continue;
      }
      const T maximum = a.maximum.as<T>()[r];
      const T inverse = T{1} / a.sum.as<T>()[r];
      const T weight = a.weight.data == nullptr ? T{1} : a.weight.as<T>()[r];
      const T factor = static_cast<T>(a.scale) * weight;
      for (dim_t v = 0; v < a.logits.cols; ++v) {
        const T probability = exp_of(logits[v] - maximum) * inverse;
        const bool is_target = v == target - a.first_row;
        put_at<T>(to, r, v, (is_target ? probability - T{1} : probability) * factor);
      }
    }
  }
};

}  // namespace

void cross_entropy_statistics(Stream&, const CrossEntropyStatistics& a) {
  run_wide<Statistics>(a.logits.dtype, a);
}

void cross_entropy_combine(Stream&, const CrossEntropyCombine& a) {
  run_wide<Combine>(a.statistics.dtype, a);
}

void cross_entropy_gradient(Stream&, const CrossEntropyGradient& a) {
  run_wide<Gradient>(a.logits.dtype, a);
}

}  // namespace cambium::kernels::reference
