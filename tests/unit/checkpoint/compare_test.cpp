// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/compare.hpp"

#include <gmock/gmock.h>

#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two checkpoints, the second changed by `change` before it is written, by another number of ranks.
Comparison compare_with(const std::function<void(std::vector<Whole>&)>& change) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  auto model = make_model();
  const auto path = write_model(a.path(), 5, model, 3).path;
  change(model);
  return compare(open_checkpoint(path), open_checkpoint(write_model(b.path(), 5, model, 2).path));
}

TEST(Compare, FindsOtherLayoutsEqual) {
  const Comparison c = compare_with([](auto&) {});

  EXPECT_THAT(c.differences, IsEmpty());
  EXPECT_EQ(c.arrays_compared, 9);
  EXPECT_EQ(c.elements_compared, 2 * 37 * 24 + 17 * 13 + 17 + 29 + 10 + 3 + 20);
}

TEST(Compare, NamesTheFirstElementAndCounts) {
  const Comparison c = compare_with([](std::vector<Whole>& model) {
    auto* table = reinterpret_cast<double*>(model[7].bytes.data());
    table[9] = 1.0;
    table[10] = 0.1;
  });

  ASSERT_EQ(c.differences.size(), 1U);
  EXPECT_THAT(c.differences[0], HasSubstr("/thresholds/table: element [2, 1]: "));
  EXPECT_THAT(c.differences[0], HasSubstr(" and 1; 2 of 20 elements differ"));
  EXPECT_EQ(c.arrays_differing, 1);
  EXPECT_EQ(c.elements_differing, 2);
}

TEST(Compare, SeesTheSignOfZeroAndKeepsSeventeenDigits) {
  const Comparison c = compare_with([](std::vector<Whole>& model) {
    reinterpret_cast<float*>(model[2].bytes.data())[16] = -0.0F;
  });
  ASSERT_EQ(c.differences.size(), 1U);
  EXPECT_THAT(c.differences[0], HasSubstr("[16]"));
  EXPECT_THAT(c.differences[0], HasSubstr("and -0;"));
}

TEST(Compare, NamesAttributesShapesTypesAndLoneArrays) {
  const Comparison c = compare_with([](std::vector<Whole>& model) {
    model[0].array.attributes["updates"] = 7;
    model[1] = Whole(make_array(model[1].array.name, ElementType::f32, 13, 17, 2), 0);
    model[6] = Whole(make_array(model[6].array.name, ElementType::f32, 0, 3, 7), 0);
    model[8].array.name = "/other";
  });

  EXPECT_THAT(joined(c.differences), HasSubstr("/none: only in "));
  EXPECT_THAT(joined(c.differences), HasSubstr("/other: only in "));
  EXPECT_THAT(joined(c.differences), HasSubstr("embedding.weight: attribute.updates: 99 and 7"));
  EXPECT_THAT(joined(c.differences), HasSubstr("up.weight: shape (17, 13) and (13, 17)"));
  EXPECT_THAT(joined(c.differences), HasSubstr("/thresholds/tau: type f64 and f32"));
  EXPECT_EQ(c.arrays_differing, 5);
}

TEST(Compare, LeavesTheFreeStateOut) {
  const json a = {{"seed", 1}, {"list", {1, 2}}, {"only_a", 0}, {"free", {{"host", "x"}}}};
  const json b = {{"seed", 1.0}, {"list", {1, 3}}, {"only_b", nullptr}, {"free", {{"host", "y"}}}};

  EXPECT_THAT(compare_state(a, a), IsEmpty());
  EXPECT_THAT(compare_state(a, b),
              ElementsAre("state.list[1]: 2 and 3",
                          "state.only_a: 0 and absent",
                          "state.seed: 1 and 1.0",
                          "state.only_b: absent and null"));
}

}  // namespace
}  // namespace cambium::checkpoint
