// tests/unit/device/buffer_test.cpp — owned memory and its accounts.
// SPDX-License-Identifier: Apache-2.0
#include "device/buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>

namespace cambium::device {
namespace {

TEST(Buffer, IsAlignedAndZeroed) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{3} << 20}) {
    const Buffer buffer(bytes);

    const auto* begin = static_cast<const unsigned char*>(buffer.data());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % 64, 0U);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_TRUE(std::all_of(begin, begin + bytes, [](unsigned char c) { return c == 0; }));
  }
}

TEST(Buffer, LeavesNothingBehindWhenMoved) {
  Buffer from(256);
  void* const data = from.data();

  Buffer to(std::move(from));

  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to.bytes(), 256U);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT(bugprone-use-after-move): the contract under test
  EXPECT_EQ(from.bytes(), 0U);
}

TEST(Buffer, GivesViewsThatFitAndRefusesOthers) {
  const Buffer buffer(100 * sizeof(float));

  const View v = buffer.view(DType::f32, 5, 10, 40);
  EXPECT_EQ(v.data, static_cast<char*>(buffer.data()) + 40);
  EXPECT_EQ(v.stride, 10);
  EXPECT_NO_THROW((void)buffer.view(DType::f32, 10, 10));
  EXPECT_THROW((void)buffer.view(DType::f32, 10, 10, 4), Error);
  EXPECT_THROW((void)buffer.view(DType::f64, 10, 6), Error);
}

TEST(Arena, CountsWhatIsAliveAndItsPeak) {
  Arena arena("activations");
  std::optional<Buffer> first = arena.allocate(1000);
  std::optional<Buffer> second = arena.allocate(DType::f64, 10);
  EXPECT_EQ(arena.live_bytes(), 1080U);

  first.reset();
  EXPECT_EQ(arena.live_bytes(), 80U);
  second = arena.allocate(40);  // the new one exists before the old one goes
  EXPECT_EQ(arena.live_bytes(), 40U);

  EXPECT_EQ(arena.peak_bytes(), 1080U);
}

TEST(Arena, ForgetsABufferOnceAfterMoves) {
  Arena arena("scratch");
  {
    Buffer a = arena.allocate(64);
    Buffer b = std::move(a);
    a = std::move(b);
    EXPECT_EQ(arena.live_bytes(), 64U);
  }
  EXPECT_EQ(arena.live_bytes(), 0U);
}

TEST(Arena, NamesItselfWhenTheMachineRefuses) {
  Arena arena("optimizer");
  try {
    const Buffer buffer = arena.allocate(std::size_t{1} << 60);
    FAIL() << "2^60 bytes were given";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::does_not_fit);
    EXPECT_NE(std::string(e.what()).find("optimizer"), std::string::npos);
  }
  EXPECT_EQ(arena.live_bytes(), 0U);
}

}  // namespace
}  // namespace cambium::device
