// tests/kernels/product_order_test.cpp — the order contract of the products, by comparing bits
// (design.md §1).
//
// One checker takes any product and counts elements whose bits depend on what they must not depend
// on. Ours must count zero; a product that splits its sum, as libraries do, must not.
// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/product_order.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace cambium::kernels::testing {
namespace {

Differences check_shapes(const ProductFunction& product, Backend backend) {
  Differences sum;
  for (const Shape& s : kShapes) {
    const Differences d = check_order(
        product, backend, some_matrix(s.rows, s.sum, 1), some_matrix(s.columns, s.sum, 2));
    const Differences tiny = check_order(
        product, backend, tiny_matrix(s.rows, s.sum, 3), tiny_matrix(s.columns, s.sum, 4));
    EXPECT_EQ(d, Differences{}) << s.rows << " x " << s.columns << " x " << s.sum;
    EXPECT_EQ(tiny, Differences{})
        << s.rows << " x " << s.columns << " x " << s.sum << ", denormals";
    sum += d;
    sum += tiny;
  }
  return sum;
}

// The large operands give both threads work.
void expect_one_order(const ProductFunction& product) {
  expect_one_order(product, check_shapes, some_matrix(203, 700, 5), some_matrix(605, 700, 6));
}

TEST_F(ProductOrder, ForwardKeepsItsBits) {
  expect_one_order(forward_product);
}

TEST_F(ProductOrder, BackwardInputKeepsItsBits) {
  expect_one_order(backward_input_product);
}

TEST_F(ProductOrder, BackwardWeightKeepsItsBits) {
  expect_one_order(backward_weight_product);
}

// The sum cut in two calls, the second with Accumulate::yes, is the chain of one call.
ProductFunction accumulated(
    const std::function<void(Stream&, Matrix&, const Matrix&, const Matrix&, Accumulate)>& call) {
  return [call](Stream& stream, const Matrix& left, const Matrix& right) {
    const dim_t cut = left.cols / 2;
    const Matrix left_t = left.transposed();
    const Matrix right_t = right.transposed();
    Matrix out(left.rows, right.rows);
    const auto part = [&](Range range, Accumulate accumulate) {
      call(stream,
           out,
           left_t.part_of_rows(range).transposed(),
           right_t.part_of_rows(range).transposed(),
           accumulate);
    };
    part({0, cut}, Accumulate::no);
    part({cut, left.cols}, Accumulate::yes);
    return out;
  };
}

TEST_F(ProductOrder, AccumulateContinuesTheChain) {
  const auto forward = [](Stream& stream,
                          Matrix& out,
                          const Matrix& left,
                          const Matrix& right,
                          Accumulate accumulate) {
    Matrix x = left;
    Packed w(stream, right);
    product_forward(stream,
                    {.x = x.view(), .w = w.weight(), .y = out.view(), .accumulate = accumulate});
  };
  const auto backward_input = [](Stream& stream,
                                 Matrix& out,
                                 const Matrix& left,
                                 const Matrix& right,
                                 Accumulate accumulate) {
    Matrix dy = left;
    Packed w(stream, right.transposed());
    product_backward_input(
        stream, {.dy = dy.view(), .w = w.weight(), .dx = out.view(), .accumulate = accumulate});
  };
  const auto backward_weight = [](Stream& stream,
                                  Matrix& out,
                                  const Matrix& left,
                                  const Matrix& right,
                                  Accumulate accumulate) {
    Matrix dy = left.transposed();
    Matrix x = right.transposed();
    product_backward_weight(
        stream, {.dy = dy.view(), .x = x.view(), .dw = out.view(), .accumulate = accumulate});
  };

  expect_one_order(accumulated(forward));
  expect_one_order(accumulated(backward_input));
  expect_one_order(accumulated(backward_weight));
}

// The residual is added once, to the chain that has ended; here it is the output itself.
TEST_F(ProductOrder, ResidualIsAddedOnceAfterTheChain) {
  for (const Shape& s : kShapes) {
    const Matrix left = some_matrix(s.rows, s.sum, 1);
    const Matrix right = some_matrix(s.columns, s.sum, 2);
    const Matrix residual = some_matrix(s.rows, s.columns, 7);
    Matrix expected = chain(left, right);
    std::transform(residual.values.begin(),
                   residual.values.end(),
                   expected.values.begin(),
                   expected.values.begin(),
                   std::plus<>());
    const auto product = [&](Stream& stream) {
      Matrix x = left;
      Matrix y = residual;
      Packed w(stream, right);
      product_forward(stream,
                      {.x = x.view(), .w = w.weight(), .y = y.view(), .residual = y.view()});
      return y;
    };

    Stream reference(Backend::reference, 1);
    EXPECT_EQ(count_differences(product(reference), expected), 0) << "reference";
    for (const Isa isa : supported_isas()) {
      cpu::select_isa(isa);
      for (const int threads : {1, 2}) {
        Stream stream(Backend::cpu, threads);
        EXPECT_EQ(count_differences(product(stream), expected), 0)
            << name_of(isa) << ", " << threads;
      }
    }
  }
}

// What a library does with a whole K: it splits the sum by threads and by the size of the output,
// and adds the parts. Each part is a chain in 8 lanes, as vector code without packing has it.
Matrix library_product(Stream& stream, const Matrix& left, const Matrix& right) {
  const dim_t parts = stream.pool().size() * (left.rows * right.rows < 2048 ? 4 : 2);
  constexpr dim_t kLanes = 8;
  Matrix out(left.rows, right.rows);
  for (dim_t i = 0; i < out.rows; ++i) {
    for (dim_t j = 0; j < out.cols; ++j) {
      for (dim_t part = 0; part < parts; ++part) {
        const Range range = share(left.cols, parts, part);
        float lanes[kLanes] = {};
        for (dim_t s = range.begin; s < range.end; ++s) {
          float& lane = lanes[(s - range.begin) % kLanes];
          lane = std::fma(left.at(i, s), right.at(j, s), lane);
        }
        out.at(i, j) += std::accumulate(std::begin(lanes), std::end(lanes), 0.0F);
      }
    }
  }
  return out;
}

// Proof that the checker can fail: it must refuse the library's order in every respect but one,
// since moving rows inside one call changes nothing there either.
TEST_F(ProductOrder, LibraryProductIsRejected) {
  const Matrix left = some_matrix(130, 600, 1);
  const Matrix right = some_matrix(97, 600, 2);

  const Differences d = check_order(library_product, Backend::reference, left, right);

  const dim_t most = left.rows * right.rows / 2;
  EXPECT_GT(d.from_chain, most);
  EXPECT_GT(d.by_cutting, 0);
  EXPECT_GT(d.by_appended_zeros, most);
  EXPECT_GT(d.by_threads, most);
}

// A chain whose factors are rounded before they are added (no fma) is another order too.
TEST_F(ProductOrder, UnfusedProductIsRejected) {
  const auto unfused = [](Stream&, const Matrix& left, const Matrix& right) {
    Matrix out(left.rows, right.rows);
    for (dim_t i = 0; i < out.rows; ++i) {
      for (dim_t j = 0; j < out.cols; ++j) {
        for (dim_t s = 0; s < left.cols; ++s) {
          const float product = left.at(i, s) * right.at(j, s);
          out.at(i, j) += product;
        }
      }
    }
    return out;
  };

  const Differences d =
      check_order(unfused, Backend::reference, some_matrix(37, 75, 1), some_matrix(53, 75, 2));

  EXPECT_GT(d.from_chain, 0);
}

}  // namespace
}  // namespace cambium::kernels::testing
