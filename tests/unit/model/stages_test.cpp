// unit/model/stages_test.cpp — which stage owns which layers.
// SPDX-License-Identifier: Apache-2.0
#include "model/stages.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "base/philox.hpp"
#include "support/throws.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using model::plan_stages;
using model::StageMap;
using testing::expect_error;

double largest_cost(const std::vector<double>& costs,
                    double head,
                    const std::vector<dim_t>& first) {
  double most = 0;
  for (std::size_t s = 0; s + 1 < first.size(); ++s) {
    const double cost =
        std::accumulate(costs.begin() + first[s], costs.begin() + first[s + 1], 0.0);
    most = std::max(most, cost + (s + 2 == first.size() ? head : 0));
  }
  return most;
}

// The least largest cost over every way to cut.
double best_cost(const std::vector<double>& costs,
                 double head,
                 std::vector<dim_t>& first,
                 int stages) {
  const auto n = static_cast<dim_t>(costs.size());
  if (stages == 1) {
    first.push_back(n);
    const double cost = largest_cost(costs, head, first);
    first.pop_back();
    return cost;
  }
  double best = 1e300;
  for (dim_t cut = first.back() + 1; cut <= n - stages + 1; ++cut) {
    first.push_back(cut);
    best = std::min(best, best_cost(costs, head, first, stages - 1));
    first.pop_back();
  }
  return best;
}

TEST(Stages, BalancesEqualLayers) {
  EXPECT_EQ(plan_stages(std::vector<double>(8, 1.0), 0, 4).first,
            (std::vector<dim_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(plan_stages(std::vector<double>(8, 1.0), 0, 1).first, (std::vector<dim_t>{0, 8}));
}

TEST(Stages, UnevenTiesPutMoreOnEarlierStages) {
  EXPECT_EQ(plan_stages(std::vector<double>(5, 1.0), 0, 2).first, (std::vector<dim_t>{0, 3, 5}));
  EXPECT_EQ(plan_stages(std::vector<double>(7, 1.0), 0, 3).first, (std::vector<dim_t>{0, 3, 6, 7}));
}

TEST(Stages, TheHeadWeighsOnTheLastStage) {
  EXPECT_EQ(plan_stages(std::vector<double>(6, 1.0), 2, 2).first, (std::vector<dim_t>{0, 4, 6}));
  EXPECT_EQ(plan_stages(std::vector<double>(6, 1.0), 100, 2).first, (std::vector<dim_t>{0, 5, 6}));
}

TEST(Stages, FindsTheBestCutOfRandomCosts) {
  const RandomStream random(5, Purpose::probe);
  std::uint64_t at = 0;
  for (int round = 0; round < 60; ++round) {
    const int stages = 1 + static_cast<int>(random.below_at(at++, 4));
    std::vector<double> costs(static_cast<std::size_t>(stages) + random.below_at(at++, 5));
    for (double& c : costs) {
      c = 0.1 + random.uniform_at(at++);
    }
    const double head = 2 * random.uniform_at(at++);
    const StageMap map = plan_stages(costs, head, stages);
    ASSERT_EQ(map.stages(), stages);
    EXPECT_EQ(map.first.front(), 0);
    EXPECT_EQ(map.first.back(), static_cast<dim_t>(costs.size()));
    for (int s = 0; s < stages; ++s) {
      EXPECT_GE(map.layers_of(s, 0).size(), 1);
    }
    std::vector<dim_t> first = {0};
    EXPECT_NEAR(largest_cost(costs, head, map.first), best_cost(costs, head, first, stages), 1e-12);
  }
}

TEST(Stages, TakesAListAsItIs) {
  const StageMap map = plan_stages(std::vector<double>(6, 1.0), 0, 3, {1, 4, 1});
  EXPECT_EQ(map.first, (std::vector<dim_t>{0, 1, 5, 6}));
  EXPECT_EQ(map.stage_of(-1), 0);
  EXPECT_EQ(map.stage_of(0), 0);
  EXPECT_EQ(map.stage_of(1), 1);
  EXPECT_EQ(map.stage_of(4), 1);
  EXPECT_EQ(map.stage_of(5), 2);
  EXPECT_EQ(map.stage_of(6), 2);  // what stands behind the layers
}

TEST(Stages, RefusesWhatCannotBe) {
  const std::vector<double> costs(6, 1.0);
  expect_error(Code::usage, {"parallel.pipeline", "7 stages", "6 layers"}, [&] {
    (void)plan_stages(costs, 0, 7);
  });
  for (const std::vector<dim_t>& list :
       std::vector<std::vector<dim_t>>{{3, 2}, {3, 4}, {6, 0}, {2, 2, 2}, {6}, {7, -1}}) {
    expect_error(Code::usage, {"parallel.stages", "6 layers", "2 stages"}, [&] {
      (void)plan_stages(costs, 0, 2, list);
    });
  }
}

TEST(Stages, AnInsertedBlockWeighs) {
  const model::Spec spec = testing::tiny_spec(true, 4);
  const model::Spec grown = testing::with_blocks(spec, {"layers.1.mlp"});
  EXPECT_EQ(model::layer_cost(grown, 1) - model::layer_cost(spec, 1), 2.0 * 7 * 12);
  EXPECT_EQ(model::layer_cost(grown, 0), model::layer_cost(spec, 0));
  EXPECT_EQ(model::layer_cost(spec, 0), 12.0 * 4 * (2 * 4 + 2 * 2) + 3.0 * 12 * 11);
}

}  // namespace
}  // namespace cambium
