// tests/kernels/bf16_test.cpp — every kernel but the products on bf16 activations. One rule covers
// them: the bf16 kernel gives what the f32 kernel gives on the same (widened) values, each
// activation rounded once, and everything that stays f32 with the same bits; on every backend, ISA
// and thread count.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/attention.hpp"
#include "kernels/bias.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rope.hpp"
#include "tests/kernels/bf16_cases.hpp"

namespace cambium::kernels::testing {
namespace {

// ---- one struct a family: run<T> makes its own operands, so that every call sees the same
// --------

struct RmsNorm {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto x = activations<T>(e.rows, e.cols, e.gap, 1);
    auto dy = activations<T>(e.rows, e.cols, e.gap, 2);
    auto residual = activations<T>(e.rows, e.cols, e.gap, 3);
    auto gain = masters(1, e.cols, 4);
    auto y = output<T>(e.rows, e.cols, e.gap);
    auto dx = output<T>(e.rows, e.cols, e.gap);
    auto plain = output<T>(e.rows, e.cols, e.gap);
    auto inv_rms = masters(1, e.rows, 5);
    auto dgain = masters(1, e.cols, 6);
    rms_norm_forward(stream,
                     {.x = x.view(),
                      .gain = gain.view(),
                      .y = y.view(),
                      .inv_rms = inv_rms.view(),
                      .width = e.cols,
                      .eps = 1e-5});
    RmsNormBackwardInput back{.dy = dy.view(),
                              .x = x.view(),
                              .gain = gain.view(),
                              .inv_rms = inv_rms.view(),
                              .residual = residual.view(),
                              .dx = dx.view(),
                              .width = e.cols};
    rms_norm_backward_input(stream, back);
    back.residual = {};
    back.dx = plain.view();
    rms_norm_backward_input(stream, back);
    rms_norm_backward_weight(
        stream, {.dy = dy.view(), .x = x.view(), .inv_rms = inv_rms.view(), .dgain = dgain.view()});
    return Written().add(y).add(dx).add(plain).keep(inv_rms).keep(dgain);
  }
};

struct LayerNorm {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto x = activations<T>(e.rows, e.cols, e.gap, 1);
    auto dy = activations<T>(e.rows, e.cols, e.gap, 2);
    auto residual = activations<T>(e.rows, e.cols, e.gap, 3);
    auto gain = masters(1, e.cols, 4);
    auto bias = masters(1, e.cols, 7);
    auto y = output<T>(e.rows, e.cols, e.gap);
    auto dx = output<T>(e.rows, e.cols, e.gap);
    auto mean = masters(1, e.rows, 5);
    auto inv_std = masters(1, e.rows, 5);
    auto dgain = masters(1, e.cols, 6);
    auto dbias = masters(1, e.cols, 8);
    const dim_t width = (e.cols + 1) / 2;
    layer_norm_forward(stream,
                       {.x = x.view(),
                        .gain = gain.view(),
                        .bias = bias.view(),
                        .y = y.view(),
                        .mean = mean.view(),
                        .inv_std = inv_std.view(),
                        .width = width,
                        .eps = 1e-5});
    layer_norm_backward_input(stream,
                              {.dy = dy.view(),
                               .x = x.view(),
                               .gain = gain.view(),
                               .mean = mean.view(),
                               .inv_std = inv_std.view(),
                               .residual = residual.view(),
                               .dx = dx.view(),
                               .width = width});
    layer_norm_backward_weight(stream,
                               {.dy = dy.view(),
                                .x = x.view(),
                                .mean = mean.view(),
                                .inv_std = inv_std.view(),
                                .dgain = dgain.view(),
                                .dbias = dbias.view()});
    return Written().add(y).add(dx).keep(mean).keep(inv_std).keep(dgain).keep(dbias);
  }
};

struct Activation {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto gate = activations<T>(e.rows, e.cols, e.gap, 1);
    auto up = activations<T>(e.rows, e.cols, e.gap, 2);
    auto dy = activations<T>(e.rows, e.cols, e.gap, 3);
    std::vector<Sheet<T>> out(8, output<T>(e.rows, e.cols, e.gap));
    swiglu_forward(stream, {.gate = gate.view(), .up = up.view(), .y = out[0].view()});
    swiglu_backward(stream,
                    {.dy = dy.view(),
                     .gate = gate.view(),
                     .up = up.view(),
                     .dgate = out[1].view(),
                     .dup = out[2].view()});
    silu_forward(stream, {.x = gate.view(), .y = out[3].view()});
    silu_backward(stream, {.dy = dy.view(), .x = gate.view(), .dx = out[4].view()});
    gelu_tanh_forward(stream, {.x = gate.view(), .y = out[5].view()});
    gelu_tanh_backward(stream, {.dy = dy.view(), .x = gate.view(), .dx = out[6].view()});
    // In place, as the layers do it.
    out[7] = gate;
    swiglu_backward(stream,
                    {.dy = dy.view(),
                     .gate = out[7].view(),
                     .up = up.view(),
                     .dgate = out[7].view(),
                     .dup = up.view()});
    Written written;
    for (Sheet<T>& sheet : out) {
      written.add(sheet);
    }
    return written.add(up);
  }
};

struct Elementwise {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto x = activations<T>(e.rows, e.cols, e.gap, 1);
    auto r = activations<T>(e.rows, e.cols, e.gap, 2);
    auto gate = masters(1, e.cols, 3);
    auto dgate = masters(1, e.cols, 4);
    auto y = output<T>(e.rows, e.cols, e.gap);
    auto dr = output<T>(e.rows, e.cols, e.gap);
    auto scaled = x;
    gated_residual_forward(stream,
                           {.x = x.view(), .r = r.view(), .gate = gate.view(), .y = y.view()});
    gated_residual_backward_input(stream, {.dy = x.view(), .gate = gate.view(), .dr = dr.view()});
    gated_residual_backward_weight(stream, {.dy = x.view(), .r = r.view(), .dgate = dgate.view()});
    scale(stream, scaled.view(), 0.3);
    return Written().add(y).add(dr).add(scaled).keep(dgate);
  }
};

struct Embedding {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto table = masters(9, e.cols, 1);
    auto dtable = masters(9, e.cols, 2);
    auto positions = masters(e.rows, e.cols, 3);
    auto dpositions = masters(e.rows, e.cols, 4);
    auto dy = activations<T>(e.rows, e.cols, e.gap, 5);
    auto out = activations<T>(e.rows, e.cols, e.gap, 6);
    auto moved = activations<T>(e.rows, e.cols, e.gap, 7);
    std::vector<std::int32_t> ids;
    for (dim_t r = 0; r < e.rows; ++r) {
      ids.push_back(static_cast<std::int32_t>(5 + r * 7 % 13));
    }
    const View rows = device::view_of(ids.data(), e.rows);
    embedding_forward(stream,
                      {.table = table.view(), .ids = rows, .out = out.view(), .first_row = 6});
    embedding_backward(stream,
                       {.ids = rows, .dy = dy.view(), .dtable = dtable.view(), .first_row = 6});
    positions_forward(stream,
                      {.table = positions.view(), .x = moved.view(), .first_row = 0, .batch = 1});
    positions_backward(stream,
                       {.dy = dy.view(), .dtable = dpositions.view(), .first_row = 0, .batch = 1});
    return Written().add(out).add(moved).keep(dtable).keep(dpositions);
  }
};

struct Turning {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    const dim_t half = e.cols;
    auto cosine = masters(e.rows, half, 1);
    auto sine = masters(e.rows, half, 2);
    auto x = activations<T>(2 * e.rows, 4 * half, e.gap, 3);
    auto back = x;
    rope(stream, {x.view(), cosine.view(), sine.view(), 2, 2 * half}, Turn::forward);
    rope(stream, {back.view(), cosine.view(), sine.view(), 2, 2 * half}, Turn::backward);
    return Written().add(x).add(back);
  }
};

struct BiasRows {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto x = activations<T>(e.rows, e.cols, e.gap, 1);
    auto residual = activations<T>(e.rows, e.cols, e.gap, 2);
    auto bias = masters(1, e.cols, 3);
    auto dbias = masters(1, e.cols, 4);
    auto y = output<T>(e.rows, e.cols, e.gap);
    auto plain = output<T>(e.rows, e.cols, e.gap);
    add_bias(stream,
             {.x = x.view(), .bias = bias.view(), .y = y.view(), .residual = residual.view()});
    add_bias(stream, {.x = x.view(), .bias = bias.view(), .y = plain.view(), .residual = {}});
    bias_backward(stream, {.dy = x.view(), .dbias = dbias.view()});
    return Written().add(y).add(plain).keep(dbias);
  }
};

// Ordinary values: an infinite score would make everything behind it NaN and hide the rest.
struct Attention {
  template <typename T>
  static Sheet<T> ordinary(dim_t rows, dim_t cols, std::uint64_t seed) {
    Sheet<float> values(rows, cols);
    values.random(seed);
    Sheet<T> sheet(rows, cols, 3);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < cols; ++c) {
        sheet.at(r, c) = narrow<T>(values.at(r, c));
      }
    }
    return sheet;
  }

  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    constexpr dim_t kBatch = 2;
    constexpr dim_t kHeads = 4;
    constexpr dim_t kKvHeads = 2;
    const dim_t tokens = e.rows;
    const dim_t width = e.cols;
    const dim_t rows = tokens * kBatch;
    auto q = ordinary<T>(rows, kHeads * width, 1);
    auto k = ordinary<T>(rows, kKvHeads * width, 2);
    auto v = ordinary<T>(rows, kKvHeads * width, 3);
    auto dout = ordinary<T>(rows, kHeads * width, 4);
    auto out = output<T>(rows, kHeads * width, 3);
    auto dq = output<T>(rows, kHeads * width, 3);
    auto dk = output<T>(rows, kKvHeads * width, 3);
    auto dv = output<T>(rows, kKvHeads * width, 3);
    auto lse = masters(kBatch * kHeads, tokens, 5);
    attention_forward(stream,
                      {.q = q.view(),
                       .k = k.view(),
                       .v = v.view(),
                       .out = out.view(),
                       .lse = lse.view(),
                       .batch = kBatch,
                       .heads = kHeads,
                       .kv_heads = kKvHeads,
                       .head_width = width,
                       .scale = 0.3});
    Written written;
    written.add(out).keep(lse);
    // Backward reads the rounded output: give both dtypes the same one.
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < kHeads * width; ++c) {
        out.at(r, c) = narrow<T>(wide(out.at(r, c)));
      }
    }
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
                        .batch = kBatch,
                        .heads = kHeads,
                        .kv_heads = kKvHeads,
                        .head_width = width,
                        .scale = 0.3});
    return written.add(dq).add(dk).add(dv);
  }
};

// Logits stay f32; T is the dtype of the gradient.
struct CrossEntropy {
  template <typename T>
  static Written run(Stream& stream, const Extent& e) {
    auto logits = masters(e.rows, e.cols, 1);
    auto maximum = masters(1, e.rows, 2);
    auto sum = masters(1, e.rows, 3);
    auto weight = masters(1, e.rows, 4);
    auto gradient = activations<T>(e.rows, e.cols, e.gap, 5);
    std::vector<std::int32_t> targets;
    for (dim_t r = 0; r < e.rows; ++r) {
      targets.push_back(r % 5 == 2 ? kIgnore : static_cast<std::int32_t>(r * 3 % (e.cols + 1)));
    }
    cross_entropy_gradient(stream,
                           {.logits = logits.view(),
                            .targets = device::view_of(targets.data(), e.rows),
                            .maximum = maximum.view(),
                            .sum = sum.view(),
                            .weight = weight.view(),
                            .first_row = 0,
                            .scale = 0.01,
                            .gradient = gradient.view()});
    return Written().add(gradient).keep(logits);
  }
};

template <typename Family>
class Bf16 : public ::testing::Test {
 protected:
  void TearDown() override {
    cpu::select_isa(cpu::Isa::automatic);
  }

  static std::vector<Extent> extents() {
    if constexpr (std::is_same_v<Family, Attention>) {
      return {{1, 1, 0}, {65, 16, 0}, {130, 21, 0}, {150, 64, 0}};  // tokens, head width
    } else {
      return {kExtents.begin(), kExtents.end()};
    }
  }

  static std::vector<float> rounded(std::vector<float> values) {
    for (float& value : values) {
      value = to_float(round_to_bf16(value));
    }
    return values;
  }

  static void expect_equal(const Written& got, const Written& expected, const std::string& where) {
    SCOPED_TRACE(where);
    EXPECT_BITS_EQ(got.activations, expected.activations);
    EXPECT_BITS_EQ(got.masters, expected.masters);
  }
};

using Families = ::testing::Types<RmsNorm,
                                  LayerNorm,
                                  Activation,
                                  Elementwise,
                                  Embedding,
                                  Turning,
                                  BiasRows,
                                  Attention,
                                  CrossEntropy>;
TYPED_TEST_SUITE(Bf16, Families);

TYPED_TEST(Bf16, IsTheF32KernelRoundedOnce) {
  Stream reference(Backend::reference, 1);
  for (const Extent& e : this->extents()) {
    Written expected = TypeParam::template run<float>(reference, e);
    expected.activations = this->rounded(expected.activations);
    const std::string size = std::to_string(e.rows) + " x " + std::to_string(e.cols);
    this->expect_equal(
        TypeParam::template run<BFloat16>(reference, e), expected, size + " on reference");
    for (const CpuCase& c : cpu_cases()) {
      cpu::select_isa(c.isa);
      Stream stream(Backend::cpu, c.threads);
      this->expect_equal(TypeParam::template run<BFloat16>(stream, e),
                         expected,
                         size + " on " + cpu::name_of(c.isa));
    }
  }
}

// ---- mixtures of f32 and bf16 in one call -------------------------------------------------------

template <typename A, typename B, typename Y>
std::vector<float> mixed(Stream& stream, const Extent& e) {
  auto a = activations<A>(e.rows, e.cols, e.gap, 1);
  auto b = activations<B>(e.rows, e.cols, 0, 2);
  auto y = output<Y>(e.rows, e.cols, e.gap);
  auto biased = output<Y>(e.rows, e.cols, e.gap);
  auto into = a;
  auto copied = output<Y>(e.rows, e.cols, e.gap);
  auto bias = masters(1, e.cols, 3);
  add(stream, a.view(), b.view(), y.view());
  add_into(stream, into.view(), b.view());
  copy(stream, a.view(), copied.view());
  add_bias(stream, {.x = a.view(), .bias = bias.view(), .y = biased.view(), .residual = b.view()});
  for (const bool framed :
       {y.is_framed(), biased.is_framed(), into.is_framed(), copied.is_framed()}) {
    EXPECT_TRUE(framed);
  }
  std::vector<float> all;
  for (dim_t r = 0; r < e.rows; ++r) {
    for (dim_t c = 0; c < e.cols; ++c) {
      const float sum = wide(a.at(r, c)) + wide(b.at(r, c));
      const float with_bias = wide(b.at(r, c)) + (wide(a.at(r, c)) + bias.at(0, c));
      const auto ends_as = [](auto out, float value) {
        return std::is_same_v<decltype(out), BFloat16> ? to_float(round_to_bf16(value)) : value;
      };
      EXPECT_BITS_EQ(wide(y.at(r, c)), ends_as(Y{}, sum));
      EXPECT_BITS_EQ(wide(into.at(r, c)), ends_as(A{}, sum));
      EXPECT_BITS_EQ(wide(copied.at(r, c)), ends_as(Y{}, wide(a.at(r, c))));
      EXPECT_BITS_EQ(wide(biased.at(r, c)), ends_as(Y{}, with_bias));
      all.push_back(wide(y.at(r, c)));
    }
  }
  return all;
}

class Bf16Mixtures : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, Bf16Mixtures, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(Bf16Mixtures, AreSummedInF32AndRoundedOnce) {
  for (const Extent& e : {Extent{5, 33, 3}, Extent{1, 64, 0}, Extent{3, 7, 0}}) {
    for (Stream* stream : {&reference_, &cpu_}) {
      mixed<float, BFloat16, BFloat16>(*stream, e);
      mixed<float, BFloat16, float>(*stream, e);
      mixed<float, float, BFloat16>(*stream, e);
      mixed<BFloat16, float, BFloat16>(*stream, e);
      mixed<BFloat16, BFloat16, BFloat16>(*stream, e);
      mixed<BFloat16, BFloat16, float>(*stream, e);
      mixed<BFloat16, float, float>(*stream, e);
    }
  }
}

// Every upper half beside lower halves that round down, tie, and round up: infinities, denormals,
// and NaNs whose payload rounding would carry into an infinity or a zero.
TEST_P(Bf16Mixtures, EveryUpperHalfIsRoundedAsByItself) {
  constexpr dim_t kHalves = 65536;
  constexpr std::array<std::uint32_t, 6> kLower = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  Sheet<float> from(static_cast<dim_t>(kLower.size()), kHalves, 3);
  Sheet<BFloat16> to(from.rows(), from.cols());
  for (dim_t c = 0; c < kHalves; ++c) {
    for (dim_t r = 0; r < from.rows(); ++r) {
      const std::uint32_t upper = static_cast<std::uint32_t>(c) << 16;
      from.at(r, c) = std::bit_cast<float>(upper | kLower[static_cast<std::size_t>(r)]);
    }
  }
  for (Stream* stream : {&reference_, &cpu_}) {
    copy(*stream, from.view(), to.view());
    std::vector<int> got;
    std::vector<int> expected;
    for (dim_t r = 0; r < from.rows(); ++r) {
      for (dim_t c = 0; c < kHalves; ++c) {
        got.push_back(to.at(r, c).bits);
        expected.push_back(round_to_bf16(from.at(r, c)).bits);
      }
    }
    EXPECT_BITS_EQ(got, expected);
  }
}

TEST(Bf16Refusals, ANarrowGainAndNarrowLogits) {
  Stream stream(Backend::cpu, 1);
  auto x = activations<BFloat16>(2, 4, 0, 1);
  auto gain = activations<BFloat16>(1, 4, 0, 2);
  auto inv_rms = masters(1, 2, 3);
  auto statistics = masters(3, 2, 3);
  std::vector<std::int32_t> targets(2);

  EXPECT_THROW(rms_norm_forward(stream,
                                {.x = x.view(),
                                 .gain = gain.view(),
                                 .y = x.view(),
                                 .inv_rms = inv_rms.view(),
                                 .width = 4,
                                 .eps = 1e-5}),
               Error);
  EXPECT_THROW(cross_entropy_statistics(stream,
                                        {.logits = x.view(),
                                         .targets = device::view_of(targets.data(), 2),
                                         .first_row = 0,
                                         .statistics = statistics.view()}),
               Error);
}

}  // namespace
}  // namespace cambium::kernels::testing
