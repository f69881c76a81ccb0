// tests/unit/device/view_test.cpp — slices of borrowed matrices.
// SPDX-License-Identifier: Apache-2.0
#include "device/view.hpp"

#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace cambium::device {
namespace {

TEST(View, SlicesRowsAndColumnsInPlace) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0F);
  const View whole = view_of(values.data(), 4, 6);

  const View middle = whole.slice_rows({1, 3}).slice_cols({2, 5});

  EXPECT_EQ(middle.rows, 2);
  EXPECT_EQ(middle.cols, 3);
  EXPECT_EQ(middle.stride, 6);
  EXPECT_EQ(middle.as<float>()[0], 8.0F);
  EXPECT_EQ(middle.as<float>()[middle.stride + 2], 16.0F);
  EXPECT_FALSE(middle.is_contiguous());
  EXPECT_TRUE(whole.slice_rows({1, 3}).is_contiguous());
  EXPECT_TRUE(middle.slice_rows({0, 1}).is_contiguous());
}

TEST(View, CountsBytesOfItsDtype) {
  std::vector<double> values(6);
  const View whole = view_of(values.data(), 3, 2);

  EXPECT_EQ(whole.slice_rows({2, 3}).as<double>(), values.data() + 4);
  EXPECT_EQ(whole.slice_cols({1, 2}).as<double>(), values.data() + 1);
}

TEST(View, RefusesAnotherDtype) {
  float value = 1;
  const View v = view_of(&value, 1);

  EXPECT_THROW((void)v.as<double>(), Error);
  EXPECT_EQ(View{}.as<double>(), nullptr);  // an absent view has no dtype to disagree with
}

TEST(View, IsEmptyWithoutMemoryOrExtent) {
  float value = 1;
  EXPECT_TRUE(View{}.empty());
  EXPECT_TRUE(view_of(&value, 0).empty());
  EXPECT_FALSE(view_of(&value, 1).empty());
  EXPECT_EQ(view_of(&value, 3, 7).size(), 21);
}

}  // namespace
}  // namespace cambium::device
