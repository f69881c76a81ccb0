// tests/kernels/cross_entropy_test.cpp — by hand, over shards, by finite differences, and bit for
// bit between backends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.hpp"

#include <limits>

#include "tests/kernels/finite_differences.hpp"
#include "tests/kernels/kernel_cases.hpp"

namespace cambium::kernels::testing {
namespace {

template <typename T>
struct Result {
  std::vector<T> maximum;
  std::vector<T> sum;
  std::vector<T> loss;
  std::vector<T> gradient;  // by shards, each with its frame
  T total = 0;
};

// The whole op on logits that are cut over `shards`, as the head does it.
template <typename T>
Result<T> run(Stream& stream,
              Sheet<T>& logits,
              std::vector<std::int32_t> targets,
              dim_t shards,
              std::vector<T> weight = {}) {
  const dim_t rows = logits.rows();
  const View target_view = device::view_of(targets.data(), rows);
  std::vector<Sheet<T>> parts;
  Sheet<T> statistics(3 * shards, rows, 2);
  for (dim_t s = 0; s < shards; ++s) {
    const Range columns = share(logits.cols(), shards, s);
    Sheet<T>& part = parts.emplace_back(rows, columns.size(), s);
    for (dim_t r = 0; r < rows; ++r) {
      for (dim_t c = 0; c < columns.size(); ++c) {
        part.at(r, c) = logits.at(r, columns.begin + c);
      }
    }
    cross_entropy_statistics(stream,
                             {.logits = part.view(),
                              .targets = target_view,
                              .first_row = columns.begin,
                              .statistics = statistics.view().slice_rows({3 * s, 3 * s + 3})});
  }
  Sheet<T> maximum(1, rows);
  Sheet<T> sum(1, rows);
  Sheet<T> loss(1, rows);
  cross_entropy_combine(stream,
                        {.statistics = statistics.view(),
                         .shards = shards,
                         .maximum = maximum.view(),
                         .sum = sum.view(),
                         .loss = loss.view(),
                         .targets = target_view});
  Result<T> result{maximum.values(), sum.values(), loss.values(), {}, 0};
  for (dim_t s = 0; s < shards; ++s) {
    Sheet<T>& part = parts[static_cast<std::size_t>(s)];
    cross_entropy_gradient(
        stream,
        {.logits = part.view(),
         .targets = target_view,
         .maximum = maximum.view(),
         .sum = sum.view(),
         .weight = weight.empty() ? View{} : device::view_of(weight.data(), rows),
         .first_row = share(logits.cols(), shards, s).begin,
         .scale = 0.25});
    result.gradient = joined(result.gradient, shards == 1 ? part.values() : part.all());
  }
  for (dim_t r = 0; r < rows; ++r) {
    const T factor = weight.empty() ? T{1} : weight[static_cast<std::size_t>(r)];
    result.total += loss.at(0, r) * factor * T{0.25};
  }
  return result;
}

TEST(CrossEntropy, MatchesTheHandComputedCase) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    Sheet<float> logits(2, 4);
    for (dim_t c = 0; c < 4; ++c) {
      logits.at(0, c) = 7;
      logits.at(1, c) = 100;
    }

    const Result<float> r = run<float>(stream, logits, {2, kIgnore}, 1);

    EXPECT_BITS_EQ(r.maximum, (std::vector<float>{7, 100}));
    EXPECT_BITS_EQ(r.sum, (std::vector<float>{4, 4}));
    EXPECT_CLOSE(r.loss, (std::vector<float>{std::log(4.0F), 0}), {.rtol = 1e-7});
    EXPECT_BITS_EQ(r.gradient,
                   (std::vector<float>{0.0625F, 0.0625F, -0.1875F, 0.0625F, 0, 0, 0, 0}));
  }
}

TEST(CrossEntropy, GradientIsTheDerivative) {
  Stream stream(Backend::reference, 1);
  const dim_t rows = 4;
  const dim_t cols = 19;
  const std::vector<std::int32_t> targets = {3, kIgnore, 18, 0};
  const std::vector<double> weight = {1.0, 1.0, 0.5, 2.0};
  std::vector<double> x = random_doubles(rows * cols, 1, 2);
  const auto sheet_of = [&] {
    Sheet<double> logits(rows, cols);
    for (dim_t i = 0; i < rows * cols; ++i) {
      logits.at(i / cols, i % cols) = x[static_cast<std::size_t>(i)];
    }
    return logits;
  };
  Sheet<double> logits = sheet_of();

  const Result<double> result = run<double>(stream, logits, targets, 1, weight);

  expect_gradient(x, result.gradient, [&] {
    Sheet<double> moved = sheet_of();
    return run<double>(stream, moved, targets, 1, weight).total;
  });
}

TEST(CrossEntropy, ShardsGiveTheSameLossWithinRounding) {
  Stream stream(Backend::reference, 1);
  Sheet<double> logits(3, 50);
  logits.random(1, 3);

  const Result<double> whole = run<double>(stream, logits, {49, 0, 20}, 1);
  for (const dim_t shards : {2, 3, 4, 6}) {
    EXPECT_CLOSE(
        run<double>(stream, logits, {49, 0, 20}, shards).loss, whole.loss, {.rtol = 1e-14});
  }
}

// A shard without columns, or with nothing but -infinity, adds nothing.
TEST(CrossEntropy, EmptyAndMaskedShardsAddNothing) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    Stream stream(backend, 1);
    Sheet<float> logits(1, 2);
    logits.at(0, 0) = 1;
    logits.at(0, 1) = -std::numeric_limits<float>::infinity();

    const Result<float> r = run<float>(stream, logits, {0}, 4);  // shards of 0, 1, 0, 1 columns

    EXPECT_BITS_EQ(r.maximum, std::vector<float>{1});
    EXPECT_BITS_EQ(r.sum, std::vector<float>{1});
    EXPECT_BITS_EQ(r.loss, std::vector<float>{0});
  }
}

class CrossEntropyOnCpu : public OnCpu {};

INSTANTIATE_TEST_SUITE_P(Isa,
                         CrossEntropyOnCpu,
                         ::testing::ValuesIn(cpu_cases()),
                         name_of_cpu_case);

TEST_P(CrossEntropyOnCpu, HasTheReferenceBits) {
  struct Shape {
    dim_t rows, cols, shards;
  };

  for (const Shape& s :
       {Shape{1, 1, 1}, {3, 17, 1}, {19, 64, 2}, {37, 199, 3}, {33, 1009, 4}, {5, 100, 12}}) {
    SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.cols) + " over " +
                 std::to_string(s.shards));
    expect_reference_bits([&](Stream& stream) {
      Sheet<float> logits(s.rows, s.cols);
      logits.random(1, 4).with_special_values();
      std::vector<std::int32_t> targets;
      std::vector<float> weight;
      for (dim_t r = 0; r < s.rows; ++r) {
        targets.push_back(r % 5 == 4 ? kIgnore : static_cast<std::int32_t>(r * 7 % s.cols));
        weight.push_back(static_cast<float>(r % 3));
      }
      const Result<float> plain = run<float>(stream, logits, targets, s.shards);
      const Result<float> weighted = run<float>(stream, logits, targets, s.shards, weight);
      return joined(plain.maximum, plain.sum, plain.loss, plain.gradient, weighted.gradient);
    });
  }
}

}  // namespace
}  // namespace cambium::kernels::testing
