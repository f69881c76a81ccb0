// tests/kernels/kernel_cases.hpp — operands inside larger memory, and every compiled backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "device/stream.hpp"
#include "device/view.hpp"
#include "kernels/cpu/isa.hpp"
#include "support/bits.hpp"

namespace cambium::kernels::testing {

using device::Backend;
using device::Stream;
using device::View;

// (rows, cols) in rows of cols + gap elements, everything else a frame that a kernel must leave
// alone.
template <typename T>
class Sheet {
 public:
  Sheet(dim_t rows, dim_t cols, dim_t gap = 0)
      : rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        all_(static_cast<std::size_t>(rows * (cols + gap) + 2 * kEdge), T{77}) {
    for (dim_t r = 0; r < rows_; ++r) {
      for (dim_t c = 0; c < cols_; ++c) {
        at(r, c) = T{};
      }
    }
  }

  // Normal numbers times `size`; the same for every backend and dtype.
  Sheet& random(std::uint64_t seed, double size = 1) {
    const RandomStream numbers(seed, Purpose::probe);
    for (dim_t i = 0; i < rows_ * cols_; ++i) {
      at(i / cols_, i % cols_) =
          static_cast<T>(size * numbers.normal_at(static_cast<std::uint64_t>(i)));
    }
    return *this;
  }

  // Now and then zeros of both signs, denormals, and numbers large enough to overflow an exp.
  Sheet& with_special_values() {
    const std::vector<double> special = {
        0.0, -0.0, 1e-41, -3e-42, 1e-45, 95.0, -120.0, 3000.0, -1e-30};
    for (dim_t i = 3; i < rows_ * cols_; i += 11) {
      at(i / cols_, i % cols_) =
          static_cast<T>(special[static_cast<std::size_t>(i / 11) % special.size()]);
    }
    return *this;
  }

  [[nodiscard]] T& at(dim_t r, dim_t c) {
    return all_[static_cast<std::size_t>(kEdge + r * stride_ + c)];
  }

  [[nodiscard]] View view() {
    return {all_.data() + kEdge, rows_, cols_, stride_, device::DTypeOf<T>::value};
  }

  // With the frame: a write outside shows.
  [[nodiscard]] const std::vector<T>& all() const {
    return all_;
  }

  [[nodiscard]] std::vector<T> values() {
    std::vector<T> inner;
    for (dim_t i = 0; i < rows_ * cols_; ++i) {
      inner.push_back(at(i / cols_, i % cols_));
    }
    return inner;
  }

  // Nobody wrote before, behind or between the rows.
  [[nodiscard]] bool is_framed() const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const dim_t at = static_cast<dim_t>(i) - kEdge;
      const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
      if (!inside && all_[i] != T{77}) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] dim_t rows() const {
    return rows_;
  }

  [[nodiscard]] dim_t cols() const {
    return cols_;
  }

 private:
  static constexpr dim_t kEdge = 19;

  dim_t rows_;
  dim_t cols_;
  dim_t stride_;
  std::vector<T> all_;
};

// Everything in some sheets, frames included, as one vector to compare.
template <typename First, typename... Others>
[[nodiscard]] First joined(First first, const Others&... others) {
  (first.insert(first.end(), others.begin(), others.end()), ...);
  return first;
}

struct CpuCase {
  cpu::Isa isa;
  int threads;
};

inline std::vector<CpuCase> cpu_cases() {
  std::vector<CpuCase> all;
  for (const cpu::Isa isa : {cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (cpu::is_supported(isa)) {
      all.push_back({isa, 1});
      all.push_back({isa, 3});
    }
  }
  return all;
}

inline std::string name_of_cpu_case(const ::testing::TestParamInfo<CpuCase>& info) {
  return std::string(cpu::name_of(info.param.isa)) + "_" + std::to_string(info.param.threads);
}

// The cpu backend with one ISA and thread count, against `reference`.
class OnCpu : public ::testing::TestWithParam<CpuCase> {
 protected:
  OnCpu() : reference_(Backend::reference, 1), cpu_(Backend::cpu, GetParam().threads) {
    cpu::select_isa(GetParam().isa);
  }

  void TearDown() override {
    cpu::select_isa(cpu::Isa::automatic);
  }

  // `run(stream)` makes its own operands and returns everything that a kernel might have written.
  template <typename Run>
  void expect_reference_bits(const Run& run) {
    const auto expected = run(reference_);
    const auto got = run(cpu_);
    EXPECT_BITS_EQ(got, expected);
  }

  Stream reference_;
  Stream cpu_;
};

// Shapes that meet a kernel's remainders: below, at and above a vector, and enough work to wake the
// pool.
struct Extent {
  dim_t rows;
  dim_t cols;
  dim_t gap;
};

inline const std::vector<Extent> kExtents = {{1, 1, 0},
                                             {2, 7, 0},
                                             {3, 16, 0},
                                             {5, 33, 3},
                                             {4, 64, 0},
                                             {2, 95, 1},
                                             {70, 521, 5},
                                             {1, 40000, 0}};

}  // namespace cambium::kernels::testing
