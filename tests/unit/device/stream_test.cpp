// tests/unit/device/stream_test.cpp — scratch of a stream.
// SPDX-License-Identifier: Apache-2.0
#include "device/stream.hpp"

#include <cstdint>
#include <gtest/gtest.h>

namespace cambium::device {
namespace {

TEST(Stream, KeepsScratchThatIsLargeEnough) {
  Stream stream(Backend::cpu, 2);
  void* const large = stream.scratch(0, 4096);

  EXPECT_EQ(stream.scratch(0, 4096), large);
  EXPECT_EQ(stream.scratch(0, 16), large);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % 64, 0U);
}

TEST(Stream, GivesEachThreadItsOwnScratch) {
  Stream stream(Backend::cpu, 2);

  EXPECT_NE(stream.scratch(0, 64), stream.scratch(1, 64));
  EXPECT_THROW((void)stream.scratch(2, 64), Error);
  EXPECT_THROW((void)stream.scratch(-1, 64), Error);
}

TEST(Stream, StartsItsCountersAtZero) {
  Stream stream(Backend::reference, 1);

  EXPECT_EQ(stream.counters().product_flops, 0);
  EXPECT_EQ(stream.counters().attention_flops, 0);
  EXPECT_STREQ(name_of(stream.backend()), "reference");
}

}  // namespace
}  // namespace cambium::device
