// tests/kernels/product_bf16_test.cpp — products of bf16: the order contract against a chain made
// with the processor's own flushing float mode, the roundings of the output, panels, refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <immintrin.h>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/product_tile.hpp"
#include "support/bits.hpp"
#include "tests/kernels/product_bf16_cases.hpp"
#include "tests/kernels/product_order.hpp"

namespace cambium::kernels::testing {
namespace {

float bf16_value(float value) {
  return to_float(round_to_bf16(value));
}

Matrix rounded(Matrix m) {
  for (float& value : m.values) {
    value = bf16_value(value);
  }
  return m;
}

[[gnu::target("fma")]] inline float fused(float a, float b, float c) {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

// The definition, in the float mode that the caller set. Never inlined, so that nothing moves out.
[[gnu::noinline, gnu::target("fma")]] void run_pairs(Matrix& out,
                                                     const Matrix& left,
                                                     const Matrix& right) {
  for (dim_t i = 0; i < out.rows; ++i) {
    for (dim_t j = 0; j < out.cols; ++j) {
      float acc = out.at(i, j);
      for (dim_t s = 0; s < left.cols; s += 2) {
        const bool is_pair = s + 1 < left.cols;
        acc = fused(is_pair ? left.at(i, s + 1) : 0.0F, is_pair ? right.at(j, s + 1) : 0.0F, acc);
        acc = fused(left.at(i, s), right.at(j, s), acc);
      }
      out.at(i, j) = acc;
    }
  }
}

// With both flush bits of the float mode set: flushed by the processor itself.
void continue_chains(Matrix& out, const Matrix& left, const Matrix& right) {
  const Matrix a = rounded(left);
  const Matrix b = rounded(right);
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040U);
  run_pairs(out, a, b);
  _mm_setcsr(mode);
}

Matrix pair_chain(const Matrix& left, const Matrix& right) {
  Matrix out(left.rows, right.rows);
  continue_chains(out, left, right);
  return out;
}

Matrix forward_pairs(Stream& stream, const Matrix& left, const Matrix& right) {
  Narrow x(left);
  PackedPairs w(stream, right);
  Matrix y(left.rows, right.rows);
  product_forward(stream, {.x = x.view(), .w = w.weight(), .y = y.view()});
  return y;
}

Matrix backward_input_pairs(Stream& stream, const Matrix& left, const Matrix& right) {
  Narrow dy(left);
  PackedPairs w(stream, right.transposed());
  Matrix dx(left.rows, right.rows);
  product_backward_input(stream, {.dy = dy.view(), .w = w.weight(), .dx = dx.view()});
  return dx;
}

Matrix backward_weight_pairs(Stream& stream, const Matrix& left, const Matrix& right) {
  Narrow dy(left.transposed());
  Narrow x(right.transposed());
  Matrix dw(left.rows, right.rows);
  product_backward_weight(stream, {.dy = dy.view(), .x = x.view(), .dw = dw.view()});
  return dw;
}

// Products that lie around the smallest normal number, where the flush decides.
Matrix edge_matrix(dim_t rows, dim_t cols, std::uint64_t seed) {
  Matrix m = some_matrix(rows, cols, seed);
  for (float& value : m.values) {
    value = std::ldexp(std::fmod(value, 1.0F), -62);
  }
  return m;
}

Differences check_pairs(const ProductFunction& product, Backend backend) {
  Differences sum;
  for (const Shape& s : kShapes) {
    for (const auto& make : {some_matrix, edge_matrix}) {
      const Differences d = check_order(
          product, backend, make(s.rows, s.sum, 1), make(s.columns, s.sum, 2), pair_chain);
      EXPECT_EQ(d, Differences{}) << s.rows << " x " << s.columns << " x " << s.sum;
      sum += d;
    }
  }
  return sum;
}

// The large operands have more than one block of the sum and of each axis, with work for every
// thread.
void expect_pairs(const ProductFunction& product) {
  expect_one_order(product, check_pairs, some_matrix(150, 1101, 5), some_matrix(165, 1101, 6));
}

using ProductBf16Order = ProductOrder;

TEST_F(ProductBf16Order, ForwardKeepsItsBits) {
  expect_pairs(forward_pairs);
}

TEST_F(ProductBf16Order, BackwardInputKeepsItsBits) {
  expect_pairs(backward_input_pairs);
}

TEST_F(ProductBf16Order, BackwardWeightKeepsItsBits) {
  expect_pairs(backward_weight_pairs);
}

// Proof that the checker can fail: pairs taken even first, and chains that keep denormals.
TEST_F(ProductBf16Order, AnotherOrderOfAPairIsRejected) {
  const auto even_first = [](Stream&, const Matrix& left, const Matrix& right) {
    const Matrix a = rounded(left);
    const Matrix b = rounded(right);
    Matrix out(left.rows, right.rows);
    for (dim_t i = 0; i < out.rows; ++i) {
      for (dim_t j = 0; j < out.cols; ++j) {
        for (dim_t s = 0; s < left.cols; ++s) {
          out.at(i, j) = std::fma(a.at(i, s), b.at(j, s), out.at(i, j));
        }
      }
    }
    return out;
  };
  const auto keeps_denormals = [](Stream&, const Matrix& left, const Matrix& right) {
    Matrix out(left.rows, right.rows);
    run_pairs(out, rounded(left), rounded(right));
    return out;
  };

  const auto differences = [](const ProductFunction& product, auto&& make) {
    return check_order(product, Backend::reference, make(37, 75, 1), make(53, 75, 2), pair_chain)
        .from_chain;
  };
  EXPECT_GT(differences(even_first, some_matrix), 0);
  EXPECT_GT(differences(keeps_denormals, edge_matrix), 0);
}

// Each call pairs its own part of the sum: an odd part ends with a zero, and the chain goes on in
// f32.
TEST_F(ProductBf16Order, AccumulateContinuesTheChain) {
  for (const dim_t cut : {34, 35}) {
    const Matrix left = some_matrix(21, 75, 1);
    const Matrix right = some_matrix(53, 75, 2);
    const auto part = [](const Matrix& m, Range range) {
      return m.transposed().part_of_rows(range).transposed();
    };
    Matrix expected(21, 53);
    for (const Range range : {Range{0, cut}, Range{cut, 75}}) {
      continue_chains(expected, part(left, range), part(right, range));
    }
    const auto run = [&](Stream& stream) {
      Matrix y(21, 53);
      Matrix dx(21, 53);
      Matrix dw(21, 53);
      for (const Range range : {Range{0, cut}, Range{cut, 75}}) {
        const Accumulate accumulate = range.begin == 0 ? Accumulate::no : Accumulate::yes;
        Narrow x(part(left, range));
        PackedPairs w(stream, part(right, range));
        PackedPairs w_t(stream, part(right, range).transposed());
        Narrow x_t(part(left, range).transposed());
        Narrow right_t(part(right, range).transposed());
        product_forward(stream,
                        {.x = x.view(), .w = w.weight(), .y = y.view(), .accumulate = accumulate});
        product_backward_input(
            stream, {.dy = x.view(), .w = w_t.weight(), .dx = dx.view(), .accumulate = accumulate});
        product_backward_weight(
            stream,
            {.dy = x_t.view(), .x = right_t.view(), .dw = dw.view(), .accumulate = accumulate});
      }
      EXPECT_EQ(count_differences(y, expected), 0) << "forward";
      EXPECT_EQ(count_differences(dx, expected), 0) << "backward_input";
      EXPECT_EQ(count_differences(dw, expected), 0) << "backward_weight";
    };
    Stream reference(Backend::reference, 1);
    run(reference);
    for (const Isa isa : supported_isas()) {
      cpu::select_isa(isa);
      Stream stream(Backend::cpu, 2);
      run(stream);
    }
  }
}

struct End {
  bool has_bias;
  DType residual;  // i32: none
  DType out;
  bool is_alias;
};

// chain + bias, then residual + that, in f32 with denormals; then one rounding.
Matrix expected_end(const Matrix& chains,
                    const End& end,
                    const Matrix& bias,
                    const Matrix& residual) {
  Matrix y = chains;
  for (dim_t i = 0; i < y.rows; ++i) {
    for (dim_t j = 0; j < y.cols; ++j) {
      float value = y.at(i, j);
      if (end.has_bias) {
        value = value + bias.at(0, j);
      }
      if (end.residual != DType::i32) {
        const float r = residual.at(i, j);
        value = (end.residual == DType::bf16 ? bf16_value(r) : r) + value;
      }
      y.at(i, j) = end.out == DType::bf16 ? bf16_value(value) : value;
    }
  }
  return y;
}

// All combinations of output, residual and bias, in place and not, over one and several blocks.
TEST_F(ProductBf16Order, BiasAndResidualAreAddedOnceAndRoundedOnce) {
  std::vector<End> ends;
  for (const bool has_bias : {false, true}) {
    for (const DType residual : {DType::i32, DType::f32, DType::bf16}) {
      for (const DType out : {DType::f32, DType::bf16}) {
        ends.push_back({has_bias, residual, out, false});
        if (residual == out) {
          ends.push_back({has_bias, residual, out, true});
        }
      }
    }
  }
  for (const dim_t sum : {75, 1101}) {
    const Matrix left = some_matrix(85, sum, 1);
    const Matrix right = some_matrix(53, sum, 2);
    const Matrix residual = some_matrix(85, 53, 3);
    Matrix bias = some_matrix(1, 53, 4);
    const Matrix chains = pair_chain(left, right);
    const auto run = [&](Stream& stream, const End& end) {
      Narrow x(left);
      PackedPairs w(stream, right);
      Matrix wide_residual = residual;
      Narrow narrow_residual(residual);
      Matrix wide(85, 53);
      Narrow narrow(wide, 3);
      const View added = end.residual == DType::i32    ? View{}
                         : end.residual == DType::bf16 ? narrow_residual.view()
                                                       : wide_residual.view();
      const View y = end.is_alias ? added : end.out == DType::bf16 ? narrow.view() : wide.view();
      product_forward(stream,
                      {.x = x.view(),
                       .w = w.weight(),
                       .y = y,
                       .residual = added,
                       .bias = end.has_bias ? bias.view() : View{}});
      if (end.is_alias) {
        return end.out == DType::bf16 ? narrow_residual.wide() : wide_residual;
      }
      return end.out == DType::bf16 ? narrow.wide() : wide;
    };
    for (const End& end : ends) {
      const Matrix expected = expected_end(chains, end, bias, residual);
      Stream reference(Backend::reference, 1);
      EXPECT_EQ(count_differences(run(reference, end), expected), 0) << "reference";
      for (const Isa isa : supported_isas()) {
        cpu::select_isa(isa);
        Stream stream(Backend::cpu, 2);
        EXPECT_EQ(count_differences(run(stream, end), expected), 0)
            << name_of(isa) << ", bias " << end.has_bias << ", residual "
            << static_cast<int>(end.residual) << ", out " << static_cast<int>(end.out);
      }
    }
  }
}

// The same end for the f32 products, whose bias is new with it.
TEST_F(ProductBf16Order, F32TakesABiasToo) {
  const Matrix left = some_matrix(13, 300, 1);
  const Matrix right = some_matrix(53, 300, 2);
  Matrix bias = some_matrix(1, 53, 4);
  const Matrix residual = some_matrix(13, 53, 3);
  const Matrix expected =
      expected_end(chain(left, right), {true, DType::f32, DType::f32, true}, bias, residual);
  const auto run = [&](Stream& stream) {
    Matrix x = left;
    Matrix y = residual;
    Packed w(stream, right);
    product_forward(
        stream,
        {.x = x.view(), .w = w.weight(), .y = y.view(), .residual = y.view(), .bias = bias.view()});
    return y;
  };
  Stream reference(Backend::reference, 1);
  EXPECT_EQ(count_differences(run(reference), expected), 0);
  for (const Isa isa : supported_isas()) {
    cpu::select_isa(isa);
    Stream stream(Backend::cpu, 1);
    EXPECT_EQ(count_differences(run(stream), expected), 0) << name_of(isa);
  }
}

TEST_F(ProductBf16Order, RoundsTheInputGradientOnce) {
  const Matrix left = some_matrix(85, 1101, 1);
  const Matrix right = some_matrix(53, 1101, 2);
  const Matrix expected = rounded(pair_chain(left, right));
  for (const Isa isa : supported_isas()) {
    cpu::select_isa(isa);
    Stream stream(Backend::cpu, 2);
    Narrow dy(left, 5);
    PackedPairs w(stream, right.transposed());
    Narrow dx(Matrix(85, 53), 7);
    product_backward_input(stream, {.dy = dy.view(), .w = w.weight(), .dx = dx.view()});
    EXPECT_EQ(count_differences(dx.wide(), expected), 0) << name_of(isa);
    for (dim_t r = 0; r < 85; ++r) {
      EXPECT_EQ(dx.values[static_cast<std::size_t>(r * dx.stride + 53)].bits, 0x7e7e) << r;
    }
  }
}

TEST_F(ProductBf16Order, LeavesTheFloatModeAlone) {
  constexpr unsigned kFlushes = 0x8040;
  for (const Isa isa : supported_isas()) {
    cpu::select_isa(isa);
    Stream stream(Backend::cpu, 1);
    const unsigned before = _mm_getcsr() & kFlushes;
    forward_pairs(stream, some_matrix(3, 8, 1), some_matrix(5, 8, 2));
    EXPECT_EQ(_mm_getcsr() & kFlushes, before) << name_of(isa);
  }
}

TEST(PackWeight, LaysPairsOutAsTheHeaderSays) {
  Matrix plain = some_matrix(50, 7, 1);
  plain.at(3, 2) = std::numeric_limits<float>::quiet_NaN();
  plain.at(4, 6) = -std::numeric_limits<float>::infinity();
  Stream stream(Backend::cpu, 1);
  const PackedPairs w(stream, plain);

  const auto at = [](const std::vector<BFloat16>& panels, dim_t column, dim_t s, dim_t sum) {
    const dim_t units = (sum + 1) / 2;
    const dim_t unit = (column / kPanelWidth * units + s / 2) * kPanelWidth + column % kPanelWidth;
    return panels[static_cast<std::size_t>(2 * unit + s % 2)].bits;
  };
  const auto bits = [&](dim_t n, dim_t k) {
    return n < 50 && k < 7 ? round_to_bf16(plain.at(n, k)).bits : 0;
  };
  for (dim_t n = 0; n < 96; ++n) {
    for (dim_t k = 0; k < 8; ++k) {
      EXPECT_EQ(at(w.forward(), n, k, 7), bits(n, k)) << n << ", " << k;
    }
  }
  for (dim_t k = 0; k < 48; ++k) {
    for (dim_t n = 0; n < 50; ++n) {
      EXPECT_EQ(at(w.transposed(), k, n, 50), bits(n, k)) << n << ", " << k;
    }
  }
}

TEST(ProductBf16, RefusesAnUnfinishedChainInBf16AndMixedOperands) {
  Stream stream(Backend::cpu, 1);
  Narrow x(some_matrix(2, 4, 1));
  Narrow y(some_matrix(2, 3, 1));
  Matrix wide(2, 3);
  Matrix wide_x(2, 4);
  PackedPairs w(stream, some_matrix(3, 4, 2));
  Packed w32(stream, some_matrix(3, 4, 2));

  EXPECT_THROW(
      product_forward(
          stream, {.x = x.view(), .w = w.weight(), .y = y.view(), .accumulate = Accumulate::yes}),
      Error);
  EXPECT_THROW(product_forward(stream, {.x = x.view(), .w = w32.weight(), .y = wide.view()}),
               Error);
  EXPECT_THROW(product_forward(stream, {.x = wide_x.view(), .w = w32.weight(), .y = y.view()}),
               Error);
  EXPECT_THROW(
      product_backward_weight(stream, {.dy = y.view(), .x = wide_x.view(), .dw = wide.view()}),
      Error);
  Weight mixed = w.weight();
  mixed.transposed = w32.weight().transposed;
  EXPECT_THROW(pack_weight(stream, mixed), Error);
}

// Not a contract, but what the speed of this machine rests on: shown in the log.
TEST(ProductBf16, SaysWhetherTheInstructionIsUsed) {
  RecordProperty("vdpbf16ps", cpu::has_exact_bf16_instruction() ? "used" : "widened instead");
  if (__builtin_cpu_supports("avx512bf16") != 0 && cpu::is_supported(Isa::avx512)) {
    EXPECT_TRUE(cpu::has_exact_bf16_instruction())
        << "vdpbf16ps of this machine is not the chain of design.md";
  }
}

}  // namespace
}  // namespace cambium::kernels::testing
