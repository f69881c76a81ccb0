// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/layout.hpp"

#include <gmock/gmock.h>

#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using Kind = TilingDefect::Kind;

Rectangle rect(dim_t r0, dim_t r1, dim_t c0, dim_t c1) {
  return {{r0, r1}, {c0, c1}};
}

TEST(Tiling, AcceptsRaggedCuts) {
  const std::vector<Rectangle> parts = {
      rect(0, 3, 0, 2), rect(3, 5, 0, 4), rect(0, 1, 2, 4), rect(1, 3, 2, 3), rect(1, 3, 3, 4)};

  EXPECT_FALSE(find_tiling_defect(5, 4, parts).has_value());
}

TEST(Tiling, NamesTheMissingPart) {
  const std::vector<Rectangle> parts = {rect(0, 2, 0, 4), rect(2, 5, 0, 1), rect(2, 5, 3, 4)};

  const auto defect = find_tiling_defect(5, 4, parts);

  ASSERT_TRUE(defect.has_value());
  EXPECT_EQ(defect->kind, Kind::missing);
  EXPECT_EQ(defect->part, rect(2, 5, 1, 3));
}

TEST(Tiling, NamesMissingLastRowsAndAMissingWhole) {
  const std::vector<Rectangle> parts = {rect(0, 4, 0, 4)};

  EXPECT_EQ(find_tiling_defect(5, 4, parts)->part, rect(4, 5, 0, 4));
  EXPECT_EQ(find_tiling_defect(5, 4, {})->part, rect(0, 5, 0, 4));
}

TEST(Tiling, NamesThePartThatTwoCover) {
  const std::vector<Rectangle> parts = {
      rect(0, 5, 0, 3), rect(1, 3, 2, 4), rect(0, 1, 3, 4), rect(3, 5, 3, 4)};

  const auto defect = find_tiling_defect(5, 4, parts);

  ASSERT_TRUE(defect.has_value());
  EXPECT_EQ(defect->kind, Kind::doubled);
  EXPECT_EQ(defect->part, rect(1, 3, 2, 3));
}

TEST(Tiling, NamesASliceOutside) {
  const std::vector<Rectangle> parts = {rect(0, 5, 0, 5)};

  const auto defect = find_tiling_defect(5, 4, parts);

  ASSERT_TRUE(defect.has_value());
  EXPECT_EQ(defect->kind, Kind::outside);
}

TEST(Tiling, OfNoElementsNeedsNoSlices) {
  EXPECT_FALSE(find_tiling_defect(0, 4, {}).has_value());
}

// Every element is in exactly one block, and no block is over the limit.
TEST(Transfer, SplitsIntoBlocksWithinTheLimit) {
  for (const dim_t limit : {1, 4, 12, 20, 52, 53, 1000}) {
    const Rectangle part = rect(2, 9, 3, 16);

    const auto blocks = split_transfer(part, 4, static_cast<std::size_t>(limit));

    std::vector<Rectangle> moved;
    for (const Rectangle& b : blocks) {
      EXPECT_LE(b.elements(), std::max<dim_t>(1, limit / 4)) << limit;
      moved.push_back(rect(b.rows.begin - 2, b.rows.end - 2, b.cols.begin - 3, b.cols.end - 3));
    }
    EXPECT_FALSE(find_tiling_defect(7, 13, moved).has_value()) << limit;
  }
}

TEST(Transfer, TakesOneBlockWhenItFits) {
  EXPECT_EQ(split_transfer(rect(0, 7, 0, 13), 4, 7 * 13 * 4).size(), 1U);
  EXPECT_EQ(split_transfer(rect(0, 7, 0, 13), 4, 7 * 13 * 4 - 1).size(), 2U);
  EXPECT_TRUE(split_transfer(rect(3, 3, 0, 13), 4, 100).empty());
}

TEST(Arrays, RefusesBadNamesByName) {
  const auto check = [](const char* a, const char* b) {
    const std::vector<Array> arrays = {{a, ElementType::f32, 1, 1, false, {}},
                                       {b, ElementType::f32, 1, 1, false, {}}};
    return error_of(Code::bug, [&] { check_arrays(arrays); });
  };

  EXPECT_THAT(check("/a", "b"), HasSubstr("'b'"));
  EXPECT_THAT(check("/a", "/b//c"), HasSubstr("'/b//c'"));
  EXPECT_THAT(check("/a", "/../c"), HasSubstr("'/../c'"));
  EXPECT_THAT(check("/a", "/c/"), HasSubstr("'/c/'"));
  EXPECT_THAT(check("/a", "/a"), HasSubstr("twice"));
  EXPECT_THAT(check("/a", "/a/b"), HasSubstr("folder of '/a/b'"));
}

TEST(Arrays, AcceptsNamesThatOnlyLookNested) {
  const std::vector<Array> arrays = {{"/a", ElementType::f32, 1, 1, false, {}},
                                     {"/a.b", ElementType::f32, 1, 1, false, {}},
                                     {"/ab/c", ElementType::f32, 1, 1, false, {}}};

  EXPECT_NO_THROW(check_arrays(arrays));
}

}  // namespace
}  // namespace cambium::checkpoint
