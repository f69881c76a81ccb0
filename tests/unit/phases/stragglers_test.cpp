// tests/unit/phases/stragglers_test.cpp — row M08: which rank is called slow, and after how long.
// SPDX-License-Identifier: Apache-2.0
#include "phases/stragglers.hpp"

#include <gtest/gtest.h>

namespace cambium::phases {
namespace {

constexpr comm::PhysicalMesh kOneStage{.tensor = 2, .pipeline = 1, .context = 1, .data = 2};

std::optional<SlowRank> find(const std::vector<double>& seconds, const comm::PhysicalMesh& mesh) {
  std::vector<double> space;
  return find_slow_rank(seconds, mesh, space);
}

TEST(Stragglers, M08TheRankThatWorksLongestIsFound) {
  const std::vector<double> seconds = {0.10, 0.11, 0.30, 0.09};

  const auto slow = find(seconds, kOneStage);

  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->rank, 2);
  EXPECT_EQ(slow->seconds, 0.30);
  EXPECT_EQ(slow->usual, 0.10);
}

TEST(Stragglers, M08SmallDifferencesAreNobodysFault) {
  EXPECT_FALSE(find(std::vector<double>{0.10, 0.11, 0.19, 0.09}, kOneStage));
  EXPECT_FALSE(find(std::vector<double>{0.001, 0.001, 0.04, 0.001}, kOneStage));
  EXPECT_FALSE(find(std::vector<double>{3.0}, {}));
}

TEST(Stragglers, M08AStageWithMoreToDoIsNotSlow) {
  std::vector<double> seconds(4);
  constexpr comm::PhysicalMesh kStages{.tensor = 1, .pipeline = 2, .context = 1, .data = 2};
  for (int r = 0; r < 4; ++r) {
    seconds[static_cast<std::size_t>(r)] =
        comm::coordinates_of(kStages, r).pipeline == 1 ? 1.0 : 0.1;
  }

  EXPECT_FALSE(find(seconds, kStages));
}

TEST(Stragglers, M08ASingleStallIsForgotten) {
  const auto alone = comm::make_self_group("world");
  Stragglers stragglers;
  std::vector<double> least;
  for (dim_t step = 0; step < 2 * Stragglers::kWindow; ++step) {
    for (const double s : stragglers.note(*alone, step == 1 ? 5.0 : 0.5 + 0.1 * step)) {
      least.push_back(s);
    }
  }

  EXPECT_EQ(least, (std::vector<double>{0.5, 0.5 + 0.1 * Stragglers::kWindow}));
}

}  // namespace
}  // namespace cambium::phases
