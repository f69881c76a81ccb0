// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cambium {
namespace {

TEST(Check, NamesThePlaceTheConditionAndTheReason) {
  try {
    const int shards = 3;
    CAMBIUM_CHECK(shards == 4, "one a rank");
    ADD_FAILURE() << "the check passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::bug);
    EXPECT_THAT(e.what(),
                ::testing::MatchesRegex(
                    "error_test.cpp:[0-9]+: broken invariant: shards == 4 .one a rank."));
  }
}

TEST(Code, AreTheExitCodesOfTheContract) {
  EXPECT_EQ(static_cast<int>(Code::usage), 2);
  EXPECT_EQ(static_cast<int>(Code::does_not_fit), 3);
  EXPECT_EQ(static_cast<int>(Code::bad_input), 4);
  EXPECT_EQ(static_cast<int>(Code::comm), 10);
  EXPECT_EQ(static_cast<int>(Code::device), 11);
  EXPECT_EQ(static_cast<int>(Code::storage), 12);
  EXPECT_EQ(static_cast<int>(Code::numbers), 13);
  EXPECT_EQ(static_cast<int>(Code::bug), 14);
  EXPECT_EQ(static_cast<int>(Code::no_progress), 15);
  EXPECT_EQ(static_cast<int>(Code::stopped), 75);
}

}  // namespace
}  // namespace cambium
