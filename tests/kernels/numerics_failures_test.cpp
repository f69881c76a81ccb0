// tests/kernels/numerics_failures_test.cpp — rows D06, N03 and N07 of the failure list, where
// kernels decide them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "base/tree.hpp"
#include "kernels/attention.hpp"
#include "kernels/embedding.hpp"
#include "kernels/product.hpp"
#include "tests/kernels/bf16_cases.hpp"

namespace cambium::kernels::testing {
namespace {

constexpr dim_t kHeads = 2;
constexpr dim_t kWidth = 16;
constexpr dim_t kTokens = 70;  // more than one tile of queries
constexpr dim_t kReal = 40;    // of one sequence; what is behind is padding

// One sequence of `tokens`, of which those from kReal on are padding: no gradient comes to them.
template <typename T>
struct Sequence {
  Sheet<T> q, k, v, out, dout, dq, dk, dv;
  Sheet<float> lse;

  explicit Sequence(dim_t tokens)
      : q(values(tokens, 1)),
        k(values(tokens, 2)),
        v(values(tokens, 3)),
        out(tokens, kHeads * kWidth),
        dout(values(tokens, 4)),
        dq(tokens, kHeads * kWidth),
        dk(tokens, kHeads * kWidth),
        dv(tokens, kHeads * kWidth),
        lse(kHeads, tokens) {
    for (dim_t t = kReal; t < tokens; ++t) {
      for (dim_t e = 0; e < kHeads * kWidth; ++e) {
        dout.at(t, e) = T{};
      }
    }
  }

  static Sheet<T> values(dim_t tokens, std::uint64_t seed) {
    Sheet<float> all(kTokens, kHeads * kWidth);
    all.random(seed);
    Sheet<T> sheet(tokens, kHeads * kWidth);
    for (dim_t t = 0; t < tokens; ++t) {
      for (dim_t e = 0; e < kHeads * kWidth; ++e) {
        sheet.at(t, e) = narrow<T>(all.at(t, e));
      }
    }
    return sheet;
  }

  void run(Stream& stream) {
    attention_forward(stream,
                      {.q = q.view(),
                       .k = k.view(),
                       .v = v.view(),
                       .out = out.view(),
                       .lse = lse.view(),
                       .batch = 1,
                       .heads = kHeads,
                       .kv_heads = kHeads,
                       .head_width = kWidth,
                       .scale = 0.25});
    attention_backward(stream,
                       {.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .out = out.view(),
                        .lse = lse.view(),
                        .dout = dout.view(),
                        .dq = dq.view(),
                        .dk = dk.view(),
                        .dv = dv.view(),
                        .batch = 1,
                        .heads = kHeads,
                        .kv_heads = kHeads,
                        .head_width = kWidth,
                        .scale = 0.25});
  }
};

template <typename T>
void expect_padding_reaches_nobody(Stream& stream) {
  Sequence<T> padded(kTokens);
  Sequence<T> alone(kReal);
  padded.run(stream);
  alone.run(stream);
  for (dim_t e = 0; e < kHeads * kWidth; ++e) {
    for (dim_t t = 0; t < kReal; ++t) {
      EXPECT_BITS_EQ(wide(padded.out.at(t, e)), wide(alone.out.at(t, e)));
      EXPECT_BITS_EQ(wide(padded.dq.at(t, e)), wide(alone.dq.at(t, e)));
      EXPECT_EQ(wide(padded.dk.at(t, e)), wide(alone.dk.at(t, e)));  // a zero's sign may differ
      EXPECT_EQ(wide(padded.dv.at(t, e)), wide(alone.dv.at(t, e)));
    }
    for (dim_t t = kReal; t < kTokens; ++t) {
      EXPECT_EQ(wide(padded.dq.at(t, e)), 0);
      EXPECT_EQ(wide(padded.dk.at(t, e)), 0);
      EXPECT_EQ(wide(padded.dv.at(t, e)), 0);
    }
  }
}

class NumericsFailures : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, NumericsFailures, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

// The only mask is causal, so that every query sees at least its own key: no row is without one,
// and padding stands behind what is read. Its gradients are zeros, and the other rows have the bits
// of a run without it.
TEST_P(NumericsFailures, N03PaddingReachesNobodyAndNoRowIsEmpty) {
  for (Stream* stream : {&reference_, &cpu_}) {
    expect_padding_reaches_nobody<float>(*stream);
    expect_padding_reaches_nobody<BFloat16>(*stream);
  }
}

// Ids are 32 bits wide from the file to the table; there is no narrower store between them.
TEST_P(NumericsFailures, D06IdsBeyond16BitsReachTheirOwnRows) {
  constexpr dim_t kVocabulary = 70'000;
  std::vector<std::int32_t> ids = {65535, 65536, 69999, 0};
  const View id_view = device::view_of(ids.data(), 4);
  for (Stream* stream : {&reference_, &cpu_}) {
    Sheet<float> table(kVocabulary, 1);
    for (dim_t v = 0; v < kVocabulary; ++v) {
      table.at(v, 0) = static_cast<float>(v);
    }
    Sheet<float> out(4, 1);
    Sheet<float> dtable(kVocabulary, 1);

    embedding_forward(*stream,
                      {.table = table.view(), .ids = id_view, .out = out.view(), .first_row = 0});
    embedding_backward(*stream,
                       {.ids = id_view, .dy = out.view(), .dtable = dtable.view(), .first_row = 0});

    EXPECT_EQ(out.values(), (std::vector<float>{65535, 65536, 69999, 0}));
    for (const dim_t v : {65535, 65536, 69999}) {
      EXPECT_EQ(dtable.at(v, 0), static_cast<float>(v));
    }
    for (const dim_t v : {0, 4463}) {  // 65536 and 69999 in 16 bits
      EXPECT_EQ(dtable.at(v, 0), 0.0F);
    }
  }
}

// 512 micro-batches whose bf16 gradient is 1: in bf16 the sum would stay at 256.
TEST_P(NumericsFailures, N07GradientsOfBf16AddUpInF32) {
  Sheet<BFloat16> one(1, 3);
  for (dim_t c = 0; c < 3; ++c) {
    one.at(0, c) = round_to_bf16(1.0F);
  }
  for (Stream* stream : {&reference_, &cpu_}) {
    Sheet<float> sum(3, 3);
    for (int m = 0; m < 512; ++m) {
      product_backward_weight(*stream,
                              {.dy = one.view(),
                               .x = one.view(),
                               .dw = sum.view(),
                               .accumulate = m == 0 ? Accumulate::no : Accumulate::yes});
    }
    EXPECT_EQ(sum.values(), std::vector<float>(9, 512.0F));
  }
}

// Over eight ranks: 1 and seven times 2^-9, which bf16 leaves rounds away.
TEST(Numerics, N07SumsOverRanksKeepWhatBf16Loses) {
  std::vector<float> leaves(8, 0x1p-9F);
  leaves[0] = 1.0F;
  EXPECT_EQ(tree_sum(leaves), 1.0F + 7 * 0x1p-9F);
  EXPECT_EQ(to_float(round_to_bf16(1.0F + 0x1p-9F)), 1.0F);
}

}  // namespace
}  // namespace cambium::kernels::testing
