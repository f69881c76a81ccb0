// kernels/cpu/rows-inl.hpp — loops over a row in vectors, its remainder under a mask; lane sums.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_ROWS_INL
#undef CAMBIUM_KERNELS_CPU_ROWS_INL
#else
#define CAMBIUM_KERNELS_CPU_ROWS_INL
#endif

#include "device/view.hpp"
#include "kernels/cpu/lanes_bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// Lambdas do not inherit the target of their surroundings.
#undef CAMBIUM_LAMBDA
#define CAMBIUM_LAMBDA __attribute__((always_inline, target(HWY_TARGET_STR)))

// The 16 lanes as a tree of neighbours: pairs, pairs of pairs, then the four blocks of four.
HWY_INLINE float tree_total(const Floats& a) {
  alignas(64) float sums[16];
  for (std::size_t i = 0; i < kRegisters; ++i) {
    const auto pairs = hn::Add(a.r[i], hn::Shuffle2301(a.r[i]));
    hn::Store(hn::Add(pairs, hn::Shuffle1032(pairs)), FloatTag(), sums + i * kLanesEach);
  }
  return (sums[0] + sums[4]) + (sums[8] + sums[12]);
}

// The largest lane; exact, so in any order. No lane may be NaN.
HWY_INLINE float largest_lane(const Floats& a) {
  auto best = a.r[0];
  for (std::size_t i = 1; i < kRegisters; ++i) {
    best = hn::Max(a.r[i], best);
  }
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), best));
}

HWY_INLINE float first_lane(const Floats& a) {
  return hn::GetLane(a.r[0]);
}

// A full vector, or the last n lanes of a row: what a loop's body is called with. T is float or
// BFloat16.
struct Whole {
  template <typename T>
  HWY_INLINE Floats load(const T* from) const {
    return cpu::HWY_NAMESPACE::load(from);
  }

  template <typename T>
  HWY_INLINE void store(const Floats& x, T* to) const {
    cpu::HWY_NAMESPACE::store(x, to);
  }

  // Lanes outside the row keep `old`.
  HWY_INLINE Floats keep(const Floats& x, const Floats& /*old*/) const {
    return x;
  }
};

struct Part {
  dim_t n;

  template <typename T>
  HWY_INLINE Floats load(const T* from) const {
    return load_part(from, n);
  }

  template <typename T>
  HWY_INLINE void store(const Floats& x, T* to) const {
    store_part(x, to, n);
  }

  HWY_INLINE Floats keep(const Floats& x, const Floats& old) const {
    return select(first_lanes(n), x, old);
  }
};

// Calls work(T{}) with the T of `dtype`: float or BFloat16.
template <typename Work>
HWY_INLINE void with_type(device::DType dtype, const Work& work) {
  if (dtype == device::DType::bf16) {
    work(BFloat16{});
  } else {
    work(float{});
  }
}

// body(i, Whole or Part) for i = begin, begin + 16, … below end. The remainder runs the same code
// under a mask.
template <typename Body>
HWY_INLINE void each_vector(dim_t begin, dim_t end, const Body& body) {
  dim_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    body(i, Whole{});
  }
  if (i < end) {
    body(i, Part{end - i});
  }
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
