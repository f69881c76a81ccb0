// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base_campaign.hpp"
#include "config/resolve_parallel.hpp"

namespace cambium::config {
namespace {

using namespace config::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// 8 heads, 4 key/value heads, 32 samples in micro-batches of 4: 8 micro-batches.
Campaign campaign(int tensor, int pipeline, int data, LogicalMeshConfig logical = {}) {
  Campaign c;
  c.model = {.hidden_size = 64,
             .num_hidden_layers = 4,
             .num_attention_heads = 8,
             .num_key_value_heads = 4};
  c.parallel.tensor = tensor;
  c.parallel.pipeline = pipeline;
  c.parallel.data = data;
  c.parallel.micro_batch_size = 4;
  c.parallel.logical = logical;
  c.places.file = "c.yaml";
  c.phases.push_back({.name = "p",
                      .start_from = {},
                      .settings = PretrainPhase{.steps = 1, .global_batch_size = 32}});
  return c;
}

std::string refusal_of(const Campaign& c, int ranks) {
  try {
    (void)resolve_parallel(c, ranks);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::usage);
    return e.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

TEST(ResolveParallel, FillsTheAutomaticSize) {
  EXPECT_EQ(resolve_parallel(campaign(2, 2, kAuto), 8).data, 2);
  EXPECT_EQ(resolve_parallel(campaign(kAuto, 2, 1), 8).tensor, 4);
  EXPECT_EQ(resolve_parallel(campaign(1, kAuto, 1), 3).pipeline, 3);
}

TEST(ResolveParallel, DefaultLogicalMeshIsAPowerOfTwoUpToFour) {
  EXPECT_EQ(resolve_parallel(campaign(2, 2, kAuto), 8).logical,
            (LogicalMeshConfig{.tensor = 4, .data = 4}));
  EXPECT_EQ(resolve_parallel(campaign(1, 1, kAuto), 8).logical,
            (LogicalMeshConfig{.tensor = 4, .data = 8}));
  Campaign odd = campaign(1, 1, 3);
  odd.parallel.micro_batch_size = 1;
  std::get<PretrainPhase>(odd.phases[0].settings).global_batch_size = 12;
  EXPECT_EQ(resolve_parallel(odd, 3).logical.data, 6)
      << "the smallest multiple of 3 that is at least 4";
}

TEST(ResolveParallel, OneProcessKeepsTheLogicalMeshOfTheFile) {
  const ParallelConfig p = resolve_parallel(campaign(2, 2, 2, {.tensor = 2, .data = 8}), 1);

  EXPECT_EQ(p.ranks(), 1);
  EXPECT_EQ(p.logical, (LogicalMeshConfig{.tensor = 2, .data = 8}));
  EXPECT_EQ(resolve_parallel(campaign(2, 2, 2), 1).logical,
            resolve_parallel(campaign(2, 2, 2), 8).logical);
}

TEST(ResolveParallel, RefusesAnotherNumberOfRanksWithTheEquation) {
  EXPECT_THAT(refusal_of(campaign(2, 2, 2), 6),
              HasSubstr("tensor 2 x pipeline 2 x context 1 x data 2 = 8 ranks, got 6"));
  EXPECT_THAT(refusal_of(campaign(2, 2, kAuto), 6), HasSubstr("start a multiple of 4 ranks"));
}

TEST(ResolveParallel, RefusesSizesThatDoNotDivideTheLogicalOnes) {
  EXPECT_THAT(refusal_of(campaign(1, 1, 3, {.tensor = 1, .data = 4}), 3),
              AllOf(HasSubstr("parallel.data: 3 ranks do not divide the logical size 4"),
                    HasSubstr("1, 2, 4")));
  EXPECT_THAT(refusal_of(campaign(kAuto, 1, 1, {.tensor = 2, .data = 1}), 4),
              HasSubstr("parallel.tensor: 4 ranks"));
}

TEST(ResolveParallel, RefusesMoreStagesThanLayers) {
  EXPECT_THAT(refusal_of(campaign(1, kAuto, 1), 5),
              HasSubstr("5 stages, expected at most model.num_hidden_layers 4"));
}

TEST(ResolveParallel, RefusesTwoAutomaticSizes) {
  EXPECT_THAT(refusal(base_with("data: 1", "data: auto\n  tensor: auto")),
              HasSubstr("tensor and data are auto, expected at most one"));
}

TEST(ResolveParallel, ExplicitStagesMustHoldAllLayers) {
  EXPECT_NO_THROW(parse(base_with("data: 1\n", "data: 1\n  pipeline: 2\n  stages: [1, 1]\n")));
  EXPECT_THAT(refusal(base_with("data: 1\n", "data: 1\n  pipeline: 2\n  stages: [1, 2]\n")),
              HasSubstr("1 + 2 = 3 layers, expected model.num_hidden_layers 2"));
  EXPECT_THAT(refusal(base_with("data: 1\n", "data: 1\n  pipeline: 2\n  stages: [2]\n")),
              HasSubstr("one entry for each of 2 stages, got 1"));
}

}  // namespace
}  // namespace cambium::config
