// tests/kernels/embedding_test.cpp — by hand, by finite differences, and bit for bit between
// backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(Embedding, WritesOnlyTheRowsOfItsShard) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    std::vector<float> table = {10, 11, 20, 21};  // ids 5 and 6
    std::vector<std::int32_t> ids = {6, 4, 5, 7, -100};
    std::vector<float> out(10, 1);

    embedding_forward(stream,
                      {.table = device::view_of(table.data(), 2, 2),
                       .ids = device::view_of(ids.data(), 5),
                       .out = device::view_of(out.data(), 5, 2),
                       .first_row = 5});

    EXPECT_BITS_EQ(out, (std::vector<float>{20, 21, 1, 1, 10, 11, 1, 1, 1, 1}));
  }
}

TEST(Embedding, BackwardIsTheDerivativeAndIsAdded) {
  Stream stream(Backend::reference, 1);
  std::vector<double> table = random_doubles(12, 1);  // ids 2, 3, 4
  std::vector<std::int32_t> ids = {3, 2, 3, 9, 3};
  std::vector<double> out(20);
  std::vector<double> weights = random_doubles(20, 2);
  std::vector<double> dtable(12, 3.0);
  const View id_view = device::view_of(ids.data(), 5);

  embedding_backward(stream,
                     {.ids = id_view,
                      .dy = matrix_of(weights, 5),
                      .dtable = matrix_of(dtable, 3),
                      .first_row = 2});

  for (double& d : dtable) {
    d -= 3.0;
  }
  expect_gradient(table, dtable, [&] {
    embedding_forward(
        stream,
        {.table = matrix_of(table, 3), .ids = id_view, .out = matrix_of(out, 5), .first_row = 2});
    return weighted_sum(out, weights);
  });
}

// Rows 3 … 9 of a micro-batch of 4 samples: positions 0, then 1, then 2.
TEST(Positions, AreAddedByPositionMajorRows) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    std::vector<float> table = {1, 2, 10, 20, 100, 200};
    std::vector<float> x(14, 0.5F);

    positions_forward(stream,
                      {.table = device::view_of(table.data(), 3, 2),
                       .x = device::view_of(x.data(), 7, 2),
                       .first_row = 3,
                       .batch = 4});

    EXPECT_BITS_EQ(
        x,
        (std::vector<float>{
            1.5, 2.5, 10.5, 20.5, 10.5, 20.5, 10.5, 20.5, 10.5, 20.5, 100.5, 200.5, 100.5, 200.5}));
  }
}

TEST(Positions, BackwardIsTheDerivativeAndIsAdded) {
  Stream stream(Backend::reference, 1);
  std::vector<double> table = random_doubles(12, 1);
  std::vector<double> weights = random_doubles(21, 2);
  std::vector<double> dtable(12, 3.0);

  positions_backward(
      stream,
      {.dy = matrix_of(weights, 7), .dtable = matrix_of(dtable, 4), .first_row = 3, .batch = 4});

  for (double& d : dtable) {
    d -= 3.0;
  }
  expect_gradient(table, dtable, [&] {
    std::vector<double> x = random_doubles(21, 3);
    positions_forward(
        stream, {.table = matrix_of(table, 4), .x = matrix_of(x, 7), .first_row = 3, .batch = 4});
    return weighted_sum(x, weights);
  });
}

TEST(Positions, RefuseRowsBehindTheTable) {
  Stream stream(Backend::reference, 1);
  Sheet<float> table(2, 8);
  Sheet<float> x(5, 8);

  EXPECT_THROW(
      positions_forward(stream, {.table = table.view(), .x = x.view(), .first_row = 4, .batch = 4}),
      Error);
  EXPECT_THROW(positions_backward(
                   stream, {.dy = x.view(), .dtable = table.view(), .first_row = 4, .batch = 4}),
               Error);
}

class EmbeddingOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, EmbeddingOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(EmbeddingOnCpu, HasTheReferenceBits) {
  for (const Extent& extent : kExtents) {
    SCOPED_TRACE(std::to_string(extent.rows) + " x " + std::to_string(extent.cols));
    expect_reference_bits([&](Stream& stream) {
      const auto [rows, cols, gap] = extent;
      Sheet<float> table(7, cols, gap);
      Sheet<float> out(rows, cols, gap);
      Sheet<std::int32_t> ids(1, rows);
      table.random(1).with_special_values();
      out.random(2);
      for (dim_t r = 0; r < rows; ++r) {
        ids.at(0, r) = static_cast<std::int32_t>(r * r % 13);
      }
      embedding_forward(
          stream, {.table = table.view(), .ids = ids.view(), .out = out.view(), .first_row = 3});
      embedding_backward(
          stream, {.ids = ids.view(), .dy = out.view(), .dtable = table.view(), .first_row = 3});
      Sheet<float> positions(rows, cols, gap + 1);
      positions.random(4).with_special_values();
      positions_forward(stream,
                        {.table = positions.view(), .x = out.view(), .first_row = 1, .batch = 3});
      positions_backward(
          stream, {.dy = out.view(), .dtable = positions.view(), .first_row = 2, .batch = 3});
      return joined(out.all(), table.all(), positions.all());
    });
  }
}

}  // namespace
}  // namespace cambium::kernels::testing
