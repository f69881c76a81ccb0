// tests/kernels/product_order.hpp — one checker that takes any product and counts elements whose
// bits depend on what they must not depend on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <fmt/core.h>
#include <functional>
#include <gtest/gtest.h>
#include <ostream>
#include <vector>

#include "kernels/cpu/isa.hpp"
#include "tests/kernels/product_cases.hpp"

namespace cambium::kernels::testing {

using cpu::Isa;
using device::Backend;

struct Shape {
  dim_t rows;
  dim_t columns;
  dim_t sum;
};

// Ragged in every tile size, below and above one block of each axis, and degenerate ones.
inline constexpr Shape kShapes[] = {{37, 53, 75},
                                    {130, 97, 600},
                                    {1, 1, 1},
                                    {1, 48, 256},
                                    {9, 49, 257},
                                    {65, 481, 33},
                                    {8, 16, 513}};

// Elements whose bits changed, by what was done to the call.
struct Differences {
  dim_t from_chain = 0;
  dim_t by_moving_rows = 0;
  dim_t by_cutting = 0;
  dim_t by_appended_zeros = 0;
  dim_t by_threads = 0;

  bool operator==(const Differences&) const = default;

  Differences& operator+=(const Differences& o) {
    from_chain += o.from_chain;
    by_moving_rows += o.by_moving_rows;
    by_cutting += o.by_cutting;
    by_appended_zeros += o.by_appended_zeros;
    by_threads += o.by_threads;
    return *this;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Differences& d) {
  return out << fmt::format(
             "{{from chain {}, by moving rows {}, by cutting {}, by appended zeros {}, by threads "
             "{}}}",
             d.from_chain,
             d.by_moving_rows,
             d.by_cutting,
             d.by_appended_zeros,
             d.by_threads);
}

enum class Zeros { have_a_sign, are_equal };

inline bool same(float a, float b, Zeros zeros) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (zeros == Zeros::are_equal && a == 0 && b == 0);
}

inline dim_t count_differences(const Matrix& a, const Matrix& b, Zeros zeros = Zeros::have_a_sign) {
  if (a.values.size() != b.values.size()) {
    ADD_FAILURE() << "matrices of " << a.values.size() << " and " << b.values.size() << " elements";
    return -1;
  }
  dim_t count = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    count += same(a.values[i], b.values[i], zeros) ? 0 : 1;
  }
  return count;
}

// The same product computed in four calls: rows and columns of the output cut at about a third.
inline Matrix product_in_pieces(const ProductFunction& product,
                                Stream& stream,
                                const Matrix& left,
                                const Matrix& right) {
  Matrix out(left.rows, right.rows);
  const dim_t row_cut = left.rows / 3;
  const dim_t column_cut = (right.rows + 2) / 3;
  for (const Range rows : {Range{0, row_cut}, Range{row_cut, left.rows}}) {
    for (const Range columns : {Range{0, column_cut}, Range{column_cut, right.rows}}) {
      if (rows.size() == 0 || columns.size() == 0) {
        continue;
      }
      const Matrix piece = product(stream, left.part_of_rows(rows), right.part_of_rows(columns));
      for (dim_t i = 0; i < piece.rows; ++i) {
        for (dim_t j = 0; j < piece.cols; ++j) {
          out.at(rows.begin + i, columns.begin + j) = piece.at(i, j);
        }
      }
    }
  }
  return out;
}

// What every product must give, bit for bit.
using Definition = std::function<Matrix(const Matrix& left, const Matrix& right)>;

inline Differences check_order(const ProductFunction& product,
                               Backend backend,
                               const Matrix& left,
                               const Matrix& right,
                               const Definition& definition = chain) {
  Stream one(backend, 1);
  Stream two(backend, 2);
  const Matrix whole = product(one, left, right);
  const auto reversed = [&](dim_t row) { return left.rows - 1 - row; };

  Differences d;
  d.from_chain = count_differences(whole, definition(left, right));
  d.by_moving_rows =
      count_differences(product(one, left.reordered(reversed), right), whole.reordered(reversed));
  d.by_cutting = count_differences(product_in_pieces(product, one, left, right), whole) +
                 count_differences(product_in_pieces(product, two, left, right), whole);
  for (const dim_t zeros : {1, 7, 64, 300}) {
    // A chain that ended at -0 goes on to +0: nothing else may change.
    d.by_appended_zeros += count_differences(
        product(one, left.widened(zeros), right.widened(zeros)), whole, Zeros::are_equal);
  }
  d.by_threads = count_differences(product(two, left, right), whole);
  return d;
}

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    if (cpu::is_supported(isa)) {
      found.push_back(isa);
    }
  }
  return found;
}

// On `cpu` with 1 to 3 threads the bits of `reference`: for products too large for the chain check.
inline void expect_reference_bits(const ProductFunction& product,
                                  const Matrix& left,
                                  const Matrix& right) {
  Stream reference(Backend::reference, 2);
  const Matrix expected = product(reference, left, right);
  for (const int threads : {1, 2, 3}) {
    Stream stream(Backend::cpu, threads);
    EXPECT_EQ(count_differences(product(stream, left, right), expected), 0)
        << threads << " threads";
  }
}

// check(product, backend) counts nothing on `reference` nor on `cpu` with any ISA of this machine,
// where left * right^T has the bits of `reference`, too.
template <typename Check>
void expect_one_order(const ProductFunction& product,
                      const Check& check,
                      const Matrix& left,
                      const Matrix& right) {
  {
    SCOPED_TRACE("reference");
    EXPECT_EQ(check(product, Backend::reference), Differences{});
  }
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(name_of(isa));
    cpu::select_isa(isa);
    EXPECT_EQ(check(product, Backend::cpu), Differences{});
    expect_reference_bits(product, left, right);
  }
}

// Back to the machine's own ISA after each test.
class ProductOrder : public ::testing::Test {
 protected:
  void TearDown() override {
    cpu::select_isa(Isa::automatic);
  }
};

}  // namespace cambium::kernels::testing
