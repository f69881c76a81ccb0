// SPDX-License-Identifier: Apache-2.0
#include "device/profile.hpp"

#include <gtest/gtest.h>
#include <thread>

namespace cambium::device {
namespace {

void spend() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

constexpr double kSpent = 0.002;

TEST(Profile, GivesEveryMomentToOneClass) {
  Profile profile;

  profile.start();
  {
    const WorkScope scope(&profile, Work::adamw);
    spend();
    {
      const WorkScope inner(&profile, Work::pack);
      spend();
    }
  }
  spend();
  profile.stop();

  EXPECT_GE(profile.of(Work::adamw).seconds, kSpent);
  EXPECT_GE(profile.of(Work::pack).seconds, kSpent);
  EXPECT_GE(profile.of(Work::other).seconds, kSpent);
  EXPECT_EQ(profile.of(Work::head).seconds, 0);
  double sum = 0;
  for (std::size_t w = 0; w < kWorks; ++w) {
    sum += profile.of(static_cast<Work>(w)).seconds;
  }
  EXPECT_DOUBLE_EQ(profile.seconds(), sum);
}

TEST(Profile, LeavesKernelsInsideAClaimToTheClaim) {
  Profile profile;

  profile.start();
  {
    const WorkScope head(&profile, Work::head);
    const WorkScope product(&profile, Work::product_forward, 100, 10);
    spend();
  }
  profile.stop();

  EXPECT_GE(profile.of(Work::head).seconds, kSpent);
  EXPECT_EQ(profile.of(Work::head).flops, 100);
  EXPECT_EQ(profile.of(Work::head).bytes, 10);
  EXPECT_EQ(profile.of(Work::product_forward).calls, 0);
}

TEST(Profile, LetsAClaimTakeOverFromAnother) {
  Profile profile;

  profile.start();
  {
    const WorkScope head(&profile, Work::head);
    {
      const WorkScope exchange(&profile, Work::tensor_exchange);
      spend();
    }
    const WorkScope product(&profile, Work::product_forward, 7);
  }
  profile.stop();

  EXPECT_GE(profile.of(Work::tensor_exchange).seconds, kSpent);
  EXPECT_EQ(profile.of(Work::head).flops, 7);
}

TEST(Profile, ForgetsAtTheStart) {
  Profile profile;
  profile.start();
  {
    const WorkScope scope(&profile, Work::rows, 1, 1);
    spend();
  }
  profile.stop();

  profile.start();
  profile.stop();

  EXPECT_EQ(profile.of(Work::rows).seconds, 0);
  EXPECT_EQ(profile.of(Work::rows).calls, 0);
}

TEST(WorkScope, DoesNothingWithoutAProfile) {
  const WorkScope scope(nullptr, Work::rows, 1, 1);
}

}  // namespace
}  // namespace cambium::device
