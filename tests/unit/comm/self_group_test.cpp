// One rank without MPI: the group, and collectively over it. The whole conformance suite of
// tests/mpi runs on it too.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>

#include "comm/collectively.hpp"

namespace cambium::comm {
namespace {

using ::testing::HasSubstr;

TEST(SelfGroup, IsTheIdentity) {
  const auto group = make_self_group("data");
  const std::array<std::size_t, 1> bytes = {4};
  const std::array<std::size_t, 1> offsets = {2};
  const std::string sent = "abcdef";
  std::string gathered = "....";
  std::string exchanged = "....";
  std::array<double, 2> values = {1, 2};

  group->all_gather(sent.data(), bytes, gathered.data());
  group->all_to_all(sent.data(), offsets, bytes, exchanged.data(), bytes);
  group->all_reduce(std::span<double>(values), Reduce::sum);

  EXPECT_EQ(group->name(), "data");
  EXPECT_EQ(gathered, "abcd");
  EXPECT_EQ(exchanged, "cdef");
  EXPECT_EQ(values, (std::array<double, 2>{1, 2}));
  EXPECT_EQ(group->bytes_sent(), 0);
}

TEST(SelfGroup, AReceiveThatNobodySendsToIsAnErrorNotAHang) {
  const auto group = make_self_group("pipeline");
  int value = 0;
  Request request = group->receive(&value, sizeof value, 0, 3);
  EXPECT_TRUE(request.is_pending());
  EXPECT_THROW(request.wait(), Error);
}

TEST(SelfGroup, AMessageMayComeBeforeOrAfterItsReceive) {
  const auto group = make_self_group("pipeline");
  const int sent = 7;
  int early = 0;
  int late = 0;

  Request first = group->receive(&early, sizeof early, 0, 1);
  group->send(&sent, sizeof sent, 0, 1).wait();
  group->send(&sent, sizeof sent, 0, 2).wait();
  Request second = group->receive(&late, sizeof late, 0, 2);
  first.wait();
  second.wait();

  EXPECT_EQ(early, 7);
  EXPECT_EQ(late, 7);
}

TEST(Collectively, OnOneRankGivesTheValueOrTheAgreedError) {
  const auto group = make_self_group("world");

  EXPECT_EQ(collectively(*group, "count", [] { return 3; }), 3);
  try {
    collectively(*group, "read", []() -> int { throw Error(Code::storage, "no space"); });
    ADD_FAILURE() << "it returned";
  } catch (const AgreedError& e) {
    EXPECT_EQ(e.code(), Code::storage);
    EXPECT_STREQ(e.what(), "no space");
    EXPECT_EQ(e.failed_rank(), 0);
  }
}

TEST(Collectively, OutOfMemoryDoesNotFit) {
  const auto group = make_self_group("world");
  try {
    collectively(*group, "allocate", [] { throw std::bad_alloc(); });
    ADD_FAILURE() << "it returned";
  } catch (const AgreedError& e) {
    EXPECT_EQ(e.code(), Code::does_not_fit);
    EXPECT_THAT(e.what(), HasSubstr("allocate: out of memory"));
  }
}

}  // namespace
}  // namespace cambium::comm
