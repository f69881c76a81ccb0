// tests/kernels/rope_test.cpp — by hand, as a rotation, and bit for bit between backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

TEST(Rope, MatchesTheHandComputedCase) {
  Stream stream(Backend::reference, 1);
  // Two positions of a batch of one, two heads of width 4: element e turns with e + 2.
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> cosine = {1, 1, 0, -1};
  std::vector<float> sine = {0, 0, 1, 0};

  rope(stream,
       {.x = device::view_of(x.data(), 2, 8),
        .cosine = device::view_of(cosine.data(), 2, 2),
        .sine = device::view_of(sine.data(), 2, 2),
        .batch = 1,
        .head_width = 4},
       Turn::forward);

  EXPECT_BITS_EQ(x, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, -3, -2, 1, -4, -7, -6, 5, -8}));
}

TEST(Rope, BackwardIsTheTransposeAndTheInverse) {
  Stream stream(Backend::reference, 1);
  const dim_t batch = 2;
  const dim_t tokens = 3;
  const dim_t width = 6;
  std::vector<double> cosine;
  std::vector<double> sine;
  for (const double angle : random_doubles(static_cast<std::size_t>(tokens * width / 2), 1)) {
    cosine.push_back(std::cos(angle));
    sine.push_back(std::sin(angle));
  }
  std::vector<double> start =
      random_doubles(static_cast<std::size_t>(tokens * batch * 2 * width), 2);
  std::vector<double> weights = random_doubles(start.size(), 3);
  const auto turned = [&](std::vector<double> x, Turn turn) {
    rope(stream,
         {.x = matrix_of(x, tokens * batch),
          .cosine = matrix_of(cosine, tokens),
          .sine = matrix_of(sine, tokens),
          .batch = batch,
          .head_width = width},
         turn);
    return x;
  };

  const std::vector<double> dx = turned(weights, Turn::backward);

  expect_gradient(start, dx, [&] { return weighted_sum(turned(start, Turn::forward), weights); });
  EXPECT_CLOSE(
      turned(turned(start, Turn::forward), Turn::backward), start, {.rtol = 1e-14, .atol = 1e-14});
}

class RopeOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa, RopeOnCpu, ::testing::ValuesIn(cpu_cases()), name_of_cpu_case);

TEST_P(RopeOnCpu, HasTheReferenceBits) {
  struct Shape {
    dim_t tokens, batch, heads, width, gap;
  };

  for (const Shape& s :
       {Shape{1, 1, 1, 2, 0}, {5, 3, 2, 24, 4}, {4, 2, 3, 64, 0}, {70, 2, 5, 70, 1}}) {
    for (const Turn turn : {Turn::forward, Turn::backward}) {
      expect_reference_bits([&](Stream& stream) {
        Sheet<float> x(s.tokens * s.batch, s.heads * s.width, s.gap);
        Sheet<float> cosine(s.tokens, s.width / 2, 3);
        Sheet<float> sine(s.tokens, s.width / 2);
        x.random(1).with_special_values();
        cosine.random(2);
        sine.random(3);
        rope(stream,
             {.x = x.view(),
              .cosine = cosine.view(),
              .sine = sine.view(),
              .batch = s.batch,
              .head_width = s.width},
             turn);
        return x.all();
      });
    }
  }
}

TEST(Rope, RefusesAnOddHead) {
  Stream stream(Backend::reference, 1);
  Sheet<float> x(1, 3);
  Sheet<float> table(1, 1);

  EXPECT_THROW(rope(stream,
                    {.x = x.view(),
                     .cosine = table.view(),
                     .sine = table.view(),
                     .batch = 1,
                     .head_width = 3},
                    Turn::forward),
               Error);
}

}  // namespace
}  // namespace cambium::kernels::testing
