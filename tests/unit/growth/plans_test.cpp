// unit/growth/plans_test.cpp — the plans of a run as a graph: right values, little work for a small
// edit, nothing left behind by a roll-back, and the same values as plans made from nothing,
// whatever came before.
// SPDX-License-Identifier: Apache-2.0
#include "growth/plans.hpp"

#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "growth/operation.hpp"
#include "params/param_store.hpp"
#include "support/throws.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using growth::Plans;
using growth::PlanShape;
using testing::expect_error;
using testing::tiny_spec;

// What the observed nodes say.
struct Values {
  model::StageMap stages;
  std::vector<std::vector<std::uint64_t>> entities;
  std::vector<growth::BufferPlan> memory;
  dim_t checkpoint_bytes = 0;
  std::set<growth::ProductShape> products;

  bool operator==(const Values&) const = default;
};

Values values_of(const Plans& plans) {
  Values v{.stages = plans.stages(),
           .checkpoint_bytes = plans.checkpoint_bytes(),
           .products = plans.products()};
  for (int s = 0; s < v.stages.stages(); ++s) {
    v.entities.push_back(plans.entities_of(s));
    v.memory.push_back(plans.memory_of(s));
  }
  return v;
}

TEST(Plans, StagesAreThoseOfTheSpec) {
  for (const bool is_tied : {true, false}) {
    for (int stages = 1; stages <= 3; ++stages) {
      const model::Spec spec =
          testing::with_blocks(tiny_spec(is_tied, 7), {"layers.2.mlp", "layers.2.attention"});
      EXPECT_EQ(Plans(spec, {.stages = stages}).stages(), model::plan_stages(spec, stages));
    }
  }
  EXPECT_EQ(Plans(tiny_spec(true, 5), {.stages = 2, .layers_per_stage = {1, 4}}).stages().first,
            (std::vector<dim_t>{0, 1, 5}));
}

// A tied table works as the head, whatever else stands behind the layers.
TEST(Plans, ATiedTableWeighsOnTheLastStageBesideAClassifier) {
  model::Spec spec = tiny_spec(true, 4);
  spec.vocabulary = 300;  // the head is as much work as several layers
  const model::StageMap before = Plans(spec, {.stages = 2}).stages();
  EXPECT_EQ(before.first, (std::vector<dim_t>{0, 3, 4}));
  model::add_classifier(spec, 2, 1);
  EXPECT_EQ(Plans(spec, {.stages = 2}).stages(), before);
  const model::Spec block =
      growth::grow(spec, {config::InsertGatedResidual{.after = "norm", .width = 1}}, 1);
  EXPECT_EQ(Plans(block, {.stages = 2}).stages(), before);
}

// The bytes that the plan names are those that a rank's store allocates.
TEST(Plans, MemoryIsThatOfAStore) {
  for (const bool is_tied : {true, false}) {
    for (const int stages : {1, 2}) {
      model::Spec spec = testing::with_blocks(tiny_spec(is_tied, 3), {"layers.2.mlp", "norm"});
      model::add_classifier(spec, 4, 1);
      const Plans plans(spec, {.stages = stages, .tensor_ranks = 2, .logical_tensor = 2});
      for (int s = 0; s < stages; ++s) {
        dim_t most = 0;
        for (int t = 0; t < 2; ++t) {
          const params::ParamStore store(spec,
                                         {.logical = {.tensor = 2},
                                          .physical = {.tensor = 2, .pipeline = stages},
                                          .place = {.tensor = t, .pipeline = s},
                                          .stages = plans.stages()},
                                         {},
                                         std::make_shared<params::Arenas>());
          most = std::max(most, static_cast<dim_t>(store.parameter_bytes()));
          if (t == 0) {
            std::vector<std::uint64_t> uids;
            for (const auto& b : store.buckets()) {
              uids.push_back(b->uid());
            }
            EXPECT_EQ(plans.entities_of(s), uids);
          }
        }
        // Each parameter's largest share: ragged ones may have it on different ranks.
        EXPECT_GE(plans.memory_of(s).values, most);
        EXPECT_LE(static_cast<double>(plans.memory_of(s).values), 1.05 * static_cast<double>(most));
      }
      EXPECT_EQ(plans.checkpoint_bytes(), 3 * 4 * model::parameter_count(model::inventory(spec)));
    }
  }
}

TEST(Plans, PanelsAreThoseOfAStoreInEitherPrecision) {
  const model::Spec spec = testing::with_blocks(tiny_spec(true, 3), {"layers.2.mlp", "norm"});
  for (const device::DType panels : {device::DType::f32, device::DType::bf16}) {
    const Plans plans(spec, {.logical_tensor = 2, .panels = panels});
    const params::ParamStore store(spec,
                                   {.logical = {.tensor = 2}, .stages = plans.stages()},
                                   {.panels = panels},
                                   std::make_shared<params::Arenas>());
    EXPECT_EQ(static_cast<std::size_t>(plans.memory_of(0).values + plans.memory_of(0).panels),
              store.arenas().params.live_bytes());
  }
}

TEST(Plans, ShardingDividesTheSlots) {
  const model::Spec spec = tiny_spec();
  const dim_t whole = Plans(spec, {.data_ranks = 4, .is_sharded = false}).memory_of(0).slots;
  const dim_t part = Plans(spec, {.data_ranks = 4, .is_sharded = true}).memory_of(0).slots;
  EXPECT_EQ(whole, 2 * 4 * model::parameter_count(model::inventory(spec)));
  EXPECT_GE(part, whole / 4);
  EXPECT_LE(part, whole / 4 + 2 * 4 * static_cast<dim_t>(model::inventory(spec).size()));
}

// The point of the graph: an inserted block costs the same work in a model of 4, 16 or 64 layers.
TEST(Plans, AnInsertedBlockRecomputesAsMuchInAnyDepth) {
  for (const int stages : {1, 4}) {
    std::vector<dim_t> recomputed;
    std::vector<dim_t> created;
    for (const dim_t layers : {4, 16, 64}) {
      const model::Spec spec = tiny_spec(true, layers);
      const PlanShape shape{
          .stages = stages, .tensor_ranks = 2, .data_ranks = 2, .logical_tensor = 2};
      Plans plans(spec, shape);
      EXPECT_GT(plans.counters().recomputed, 3 * layers);  // from nothing: work for each layer
      plans.propose(testing::with_blocks(spec, {"layers.2.mlp"}), shape);
      recomputed.push_back(plans.counters().recomputed);
      created.push_back(plans.counters().created);
      plans.commit();
      plans.check_invariants();
    }
    EXPECT_EQ(recomputed, std::vector<dim_t>(3, recomputed[0])) << stages;
    EXPECT_EQ(created, std::vector<dim_t>(3, created[0])) << stages;
    EXPECT_LT(recomputed[0], 50);
  }
}

TEST(Plans, NothingChangedRecomputesNothing) {
  const model::Spec spec = tiny_spec(true, 4);
  Plans plans(spec, {.stages = 2});
  plans.propose(spec, {.stages = 2});
  EXPECT_EQ(plans.counters().recomputed, 0);
  plans.commit();
}

TEST(Plans, ARollBackRestoresEveryValue) {
  const PlanShape shape{.stages = 2, .tensor_ranks = 2, .logical_tensor = 2};
  const model::Spec spec = tiny_spec(true, 4);
  Plans plans(spec, shape);
  const Values before = values_of(plans);
  const std::string dot = plans.dot();
  const model::Spec grown = growth::grow(spec,
                                         {config::InsertLayers{.after = 1, .count = 2},
                                          config::InsertGatedResidual{.after = "layers.0.mlp"}},
                                         1);
  plans.propose(grown, shape);
  EXPECT_NE(values_of(plans), before);
  plans.rollback();
  plans.check_invariants();
  EXPECT_EQ(values_of(plans), before);
  EXPECT_EQ(plans.dot(), dot);
  plans.rollback();  // without an open transaction: nothing
  EXPECT_EQ(values_of(plans), before);
  plans.propose(grown, shape);  // and it can be proposed again
  plans.commit();
  EXPECT_EQ(values_of(plans), values_of(Plans(grown, shape)));
}

TEST(Plans, APlanThatFailsRollsBack) {
  const model::Spec spec = tiny_spec(true, 3);
  Plans plans(spec, {.stages = 3});
  const Values before = values_of(plans);
  expect_error(Code::usage, {"parallel.stages"}, [&] {
    plans.propose(growth::grow(spec, {config::InsertLayers{.after = 0}}, 1),
                  {.stages = 3, .layers_per_stage = {1, 1, 1}});
  });
  plans.check_invariants();
  EXPECT_EQ(values_of(plans), before);
  plans.propose(spec, {.stages = 3});  // no transaction was left open
  plans.commit();
}

// Random sequences of operations, commits, roll-backs and changes of the shape.
TEST(Plans, AreThePlansMadeFromNothing) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const RandomStream random(seed, Purpose::probe);
    std::uint64_t at = 0;
    const auto below = [&](std::uint64_t n) {
      return static_cast<dim_t>(random.below_at(at++, n));
    };
    PlanShape shape{.stages = 1 + static_cast<int>(seed % 3),
                    .tensor_ranks = 2,
                    .data_ranks = 2,
                    .logical_tensor = 2};
    model::Spec spec = tiny_spec(seed % 2 == 0, 3);
    Plans plans(spec, shape);
    for (int round = 0; round < 15; ++round) {
      model::Spec next = spec;
      PlanShape next_shape = shape;
      const dim_t choice = below(5);
      if (choice == 0) {
        next_shape.is_sharded = !shape.is_sharded;
      } else if (choice == 1) {
        model::add_classifier(next, 2 + below(5), round);
      } else if (choice == 2) {
        const auto count = static_cast<std::uint64_t>(spec.layers.size());
        next = growth::grow(
            spec,
            {config::InsertLayers{.after = below(count + 1) - 1, .count = 1 + below(2)}},
            round + 1);
      } else {
        const std::vector<std::string> points = model::insertion_points(spec);
        const std::string& point = points[static_cast<std::size_t>(below(points.size()))];
        next = growth::grow(
            spec, {config::InsertGatedResidual{.after = point, .width = 1 + below(9)}}, round + 1);
      }
      const Values before = values_of(plans);
      plans.propose(next, next_shape);
      plans.check_invariants();
      EXPECT_EQ(values_of(plans), values_of(Plans(next, next_shape)))
          << "seed " << seed << " round " << round;
      if (below(3) == 0) {
        plans.rollback();
        EXPECT_EQ(values_of(plans), before) << "seed " << seed << " round " << round;
      } else {
        plans.commit();
        spec = next;
        shape = next_shape;
      }
      plans.check_invariants();
    }
  }
}

}  // namespace
}  // namespace cambium
