// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base_campaign.hpp"

namespace cambium::config {
namespace {

using namespace config::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Override, ReplacesAndAddsValues) {
  const Campaign c = parse(kBase,
                           {"run.seed=42",
                            "run.on_nonfinite.skip_limit=7",
                            "phases.0.steps=11",
                            "phases.pretrain.learning_rate.peak=2e-4",
                            "parallel.logical={tensor: 2, data: 2}"});

  EXPECT_EQ(c.run.seed, 42U);
  EXPECT_EQ(c.run.on_nonfinite.skip_limit, 7);
  EXPECT_EQ(pretrain_of(c).steps, 11);
  EXPECT_EQ(pretrain_of(c).learning_rate.peak, 2e-4);
  EXPECT_EQ(c.parallel.logical, (LogicalMeshConfig{.tensor = 2, .data = 2}));
}

TEST(Override, LastOneWins) {
  EXPECT_EQ(parse(kBase, {"run.seed=1", "run.seed=2"}).run.seed, 2U);
}

TEST(Override, BadValueNamesTheOverrideAsItsPlace) {
  EXPECT_THAT(refusal(kBase, {"run.seed=many"}),
              HasSubstr("--set run.seed=many: run.seed: expected a whole decimal number"));
}

TEST(Override, UnknownKeyIsRefused) {
  EXPECT_THAT(refusal(kBase, {"model.hidden_szie=4"}),
              AllOf(HasSubstr("model.hidden_szie: unknown key"), HasSubstr("hidden_size")));
}

TEST(Override, BadPathsAreRefused) {
  EXPECT_THAT(refusal(kBase, {"run.seed"}), HasSubstr("expected key.path=value"));
  EXPECT_THAT(refusal(kBase, {"=3"}), HasSubstr("expected key.path=value"));
  EXPECT_THAT(refusal(kBase, {"run..seed=3"}), HasSubstr("an empty step"));
  EXPECT_THAT(refusal(kBase, {"phases.7.steps=3"}), HasSubstr("no element 7"));
  EXPECT_THAT(refusal(kBase, {"phases.pretrian.steps=3"}), HasSubstr("did you mean pretrain?"));
  EXPECT_THAT(refusal(kBase, {"run.seed.x=3"}), HasSubstr("x has no keys"));
  EXPECT_THAT(refusal(kBase, {"run.seed={a: "}), HasSubstr("no valid YAML"));
}

}  // namespace
}  // namespace cambium::config
