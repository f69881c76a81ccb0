// tests/kernels/attention_test.cpp — against a plain softmax in f64, by finite differences, bit for
// bit between backends, and the invariances: causality, batch, threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include <limits>

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

struct Shape {
  dim_t tokens, batch, heads, kv_heads, width, gap;

  [[nodiscard]] dim_t rows() const {
    return tokens * batch;
  }
};

// All operands of both directions.
template <typename T>
struct Operands {
  Shape s;
  Sheet<T> q, k, v, out, lse, dout, dq, dk, dv;
  double scale;

  explicit Operands(const Shape& shape, double size = 1)
      : s(shape),
        q(s.rows(), s.heads * s.width, s.gap),
        k(s.rows(), s.kv_heads * s.width, s.gap),
        v(s.rows(), s.kv_heads * s.width, 2 * s.gap),
        out(s.rows(), s.heads * s.width, s.gap),
        lse(s.batch * s.heads, s.tokens, s.gap),
        dout(s.rows(), s.heads * s.width, s.gap),
        dq(s.rows(), s.heads * s.width, s.gap),
        dk(s.rows(), s.kv_heads * s.width, s.gap),
        dv(s.rows(), s.kv_heads * s.width, 2 * s.gap),
        scale(1 / std::sqrt(static_cast<double>(s.width))) {
    q.random(1, size);
    k.random(2, size);
    v.random(3);
    dout.random(4);
  }

  void forward(Stream& stream) {
    attention_forward(stream,
                      {.q = q.view(),
                       .k = k.view(),
                       .v = v.view(),
                       .out = out.view(),
                       .lse = lse.view(),
                       .batch = s.batch,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .head_width = s.width,
                       .scale = scale});
  }

  void backward(Stream& stream) {
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
                        .batch = s.batch,
                        .heads = s.heads,
                        .kv_heads = s.kv_heads,
                        .head_width = s.width,
                        .scale = scale});
  }

  std::vector<T> everything() {
    return joined(out.all(), lse.all(), dq.all(), dk.all(), dv.all());
  }
};

// Softmax as the textbook has it, for one query.
template <typename T>
std::vector<double> plain_attention(Operands<T>& o, dim_t t, dim_t b, dim_t head) {
  const Shape& s = o.s;
  const dim_t kv = head / (s.heads / s.kv_heads);
  std::vector<double> weights;
  double total = 0;
  for (dim_t key = 0; key <= t; ++key) {
    double score = 0;
    for (dim_t e = 0; e < s.width; ++e) {
      score += static_cast<double>(o.q.at(t * s.batch + b, head * s.width + e)) *
               static_cast<double>(o.k.at(key * s.batch + b, kv * s.width + e));
    }
    weights.push_back(std::exp(o.scale * score));
    total += weights.back();
  }
  std::vector<double> out(static_cast<std::size_t>(s.width));
  for (dim_t key = 0; key <= t; ++key) {
    for (dim_t e = 0; e < s.width; ++e) {
      out[static_cast<std::size_t>(e)] +=
          weights[static_cast<std::size_t>(key)] / total *
          static_cast<double>(o.v.at(key * s.batch + b, kv * s.width + e));
    }
  }
  return out;
}

TEST(Attention, FirstTokenCopiesItsValueAndEqualScoresAverage) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    Operands<float> o({.tokens = 2, .batch = 1, .heads = 1, .kv_heads = 1, .width = 2, .gap = 0});
    for (dim_t t = 0; t < 2; ++t) {
      for (dim_t e = 0; e < 2; ++e) {
        o.q.at(t, e) = 0;
        o.v.at(t, e) = static_cast<float>(10 * t + e);
      }
    }

    o.forward(stream);

    EXPECT_BITS_EQ(o.out.values(), (std::vector<float>{0, 1, 5, 6}));
    EXPECT_CLOSE(o.lse.values(), (std::vector<float>{0, std::log(2.0F)}), {.rtol = 1e-7});
    EXPECT_EQ(stream.counters().attention_flops, 4 * 2 * 3);
  }
}

TEST(Attention, IsSoftmaxWithinRounding) {
  Stream stream(Backend::reference, 1);
  Operands<double> exact(
      {.tokens = 150, .batch = 2, .heads = 4, .kv_heads = 2, .width = 8, .gap = 3});
  Operands<float> single(exact.s);

  exact.forward(stream);
  single.forward(stream);

  for (const dim_t t : {0, 1, 63, 127, 128, 149}) {
    for (dim_t head = 0; head < 4; ++head) {
      const std::vector<double> plain = plain_attention(exact, t, 1, head);
      std::vector<double> got;
      std::vector<double> rounded;
      for (dim_t e = 0; e < 8; ++e) {
        got.push_back(exact.out.at(t * 2 + 1, head * 8 + e));
        rounded.push_back(static_cast<double>(single.out.at(t * 2 + 1, head * 8 + e)));
      }
      EXPECT_CLOSE(got, plain, {.rtol = 1e-12, .atol = 1e-14});
      EXPECT_CLOSE(rounded, plain, {.rtol = 1e-5, .atol = 1e-6});
    }
  }
}

// Central differences of sum(out * dout) in some elements of `x`.
void expect_attention_gradient(Operands<double>& o, Sheet<double>& x, Sheet<double>& gradient) {
  Stream stream(Backend::reference, 1);
  std::vector<double> got;
  std::vector<double> expected;
  for (dim_t i = 0; i < x.rows() * x.cols(); i += 7) {
    double& element = x.at(i / x.cols(), i % x.cols());
    const double kept = element;
    const auto loss = [&](double moved) {
      element = moved;
      o.forward(stream);
      element = kept;
      return weighted_sum(o.out.values(), o.dout.values());
    };
    expected.push_back((loss(kept + 1e-5) - loss(kept - 1e-5)) / 2e-5);
    got.push_back(gradient.at(i / x.cols(), i % x.cols()));
  }
  EXPECT_CLOSE(got, expected, {.rtol = 1e-7, .atol = 1e-8});
}

TEST(Attention, BackwardIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  Operands<double> o({.tokens = 9, .batch = 2, .heads = 4, .kv_heads = 2, .width = 5, .gap = 1});

  o.forward(stream);
  o.backward(stream);

  expect_attention_gradient(o, o.q, o.dq);
  expect_attention_gradient(o, o.k, o.dk);
  expect_attention_gradient(o, o.v, o.dv);
}

// Over the edge of a key tile the running maximum rescales: the derivative must not notice.
TEST(Attention, BackwardIsTheDerivativeAcrossTiles) {
  Stream stream(Backend::reference, 1);
  Operands<double> o({.tokens = 131, .batch = 1, .heads = 1, .kv_heads = 1, .width = 2, .gap = 0},
                     2);

  o.forward(stream);
  o.backward(stream);

  expect_attention_gradient(o, o.q, o.dq);
  expect_attention_gradient(o, o.k, o.dk);
  expect_attention_gradient(o, o.v, o.dv);
}

class AttentionOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, AttentionOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(AttentionOnCpu, HasTheReferenceBits) {
  for (const Shape& s : {Shape{1, 1, 1, 1, 1, 0},
                         {5, 3, 2, 1, 7, 2},
                         {16, 2, 4, 2, 16, 0},
                         {67, 2, 6, 3, 24, 5},
                         {129, 1, 3, 3, 64, 0},
                         {200, 2, 4, 4, 33, 1},
                         {321, 1, 2, 1, 80, 0}}) {
    SCOPED_TRACE(std::to_string(s.tokens) + " tokens, width " + std::to_string(s.width));
    expect_reference_bits([&](Stream& stream) {
      Operands<float> o(s);
      o.forward(stream);
      o.backward(stream);
      return o.everything();
    });
  }
}

// Scores so far apart that most weights are zero or denormal, and special values in every operand.
TEST_P(AttentionOnCpu, HasTheReferenceBitsAtTheEdges) {
  expect_reference_bits([&](Stream& stream) {
    Operands<float> o({.tokens = 150, .batch = 2, .heads = 2, .kv_heads = 1, .width = 20, .gap = 0},
                      8);
    o.q.with_special_values();
    o.v.with_special_values();
    o.dout.with_special_values();
    o.forward(stream);
    o.backward(stream);
    return o.everything();
  });
}

// A sample alone has the bits that it has among others.
TEST_P(AttentionOnCpu, BatchLeavesEveryBit) {
  const Shape many{.tokens = 140, .batch = 3, .heads = 4, .kv_heads = 2, .width = 24, .gap = 0};
  Shape one = many;
  one.batch = 1;
  Operands<float> together(many);
  together.forward(cpu_);
  together.backward(cpu_);

  for (dim_t b = 0; b < many.batch; ++b) {
    Operands<float> alone(one);
    const auto take = [&](Sheet<float>& to, Sheet<float>& from) {
      for (dim_t t = 0; t < many.tokens; ++t) {
        for (dim_t c = 0; c < to.cols(); ++c) {
          to.at(t, c) = from.at(t * many.batch + b, c);
        }
      }
    };
    take(alone.q, together.q);
    take(alone.k, together.k);
    take(alone.v, together.v);
    take(alone.dout, together.dout);
    alone.forward(cpu_);
    alone.backward(cpu_);
    Operands<float> expected(one);
    take(expected.out, together.out);
    take(expected.dq, together.dq);
    take(expected.dk, together.dk);
    take(expected.dv, together.dv);
    EXPECT_BITS_EQ(alone.out.values(), expected.out.values());
    EXPECT_BITS_EQ(alone.dq.values(), expected.dq.values());
    EXPECT_BITS_EQ(alone.dk.values(), expected.dk.values());
    EXPECT_BITS_EQ(alone.dv.values(), expected.dv.values());
  }
}

// Later tokens, even infinite and NaN ones, or their absence, change nothing before them.
TEST_P(AttentionOnCpu, LaterTokensDoNotReachBack) {
  const Shape s{.tokens = 150, .batch = 2, .heads = 2, .kv_heads = 1, .width = 16, .gap = 0};
  Operands<float> o(s);
  o.forward(cpu_);

  for (const dim_t kept : {1, 64, 100, 128, 130}) {
    Shape shorter = s;
    shorter.tokens = kept;
    Operands<float> cut(shorter);
    Operands<float> changed(s);
    for (dim_t r = kept * s.batch; r < s.rows(); ++r) {
      for (dim_t e = 0; e < s.width; ++e) {
        changed.q.at(r, e) = 1e30F;
        changed.k.at(r, e) = std::numeric_limits<float>::infinity();
        changed.v.at(r, e) = std::numeric_limits<float>::quiet_NaN();
      }
    }
    cut.forward(cpu_);
    changed.forward(cpu_);
    for (dim_t r = 0; r < kept * s.batch; ++r) {
      for (dim_t c = 0; c < s.heads * s.width; ++c) {
        ASSERT_BITS_EQ(cut.out.at(r, c), o.out.at(r, c));
        ASSERT_BITS_EQ(changed.out.at(r, c), o.out.at(r, c));
      }
    }
  }
}

TEST(Attention, CountsTheCausalHalf) {
  Stream stream(Backend::reference, 1);
  Operands<float> o({.tokens = 10, .batch = 2, .heads = 4, .kv_heads = 2, .width = 3, .gap = 0});

  o.forward(stream);
  const std::int64_t forward = 2 * 4 * (2 * 2 * 3 * 55);
  EXPECT_EQ(stream.counters().attention_flops, forward);
  o.backward(stream);
  EXPECT_EQ(stream.counters().attention_flops, forward + forward / 2 * 5);
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
  Stream stream(Backend::reference, 1);
  Operands<float> o({.tokens = 2, .batch = 1, .heads = 3, .kv_heads = 2, .width = 2, .gap = 0});

  EXPECT_THROW(o.forward(stream), Error);
}

}  // namespace
}  // namespace cambium::kernels::testing
