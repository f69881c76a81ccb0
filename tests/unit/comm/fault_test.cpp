// SPDX-License-Identifier: Apache-2.0
#include "comm/fault.hpp"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

#include "base/file.hpp"
#include "comm/watchdog.hpp"

namespace cambium::comm {
namespace {

using ::testing::ExitedWithCode;

class Fault : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "fault-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(Fault, TheFirstWritesOneLineAndTheOthersAreSilent) {
  ::testing::internal::CaptureStderr();
  const Claim first = claim_fault(folder_, "rank 2 (n1): disk\nis gone");
  const Claim second = claim_fault(folder_, "rank 3 (n1): disk is gone");
  const std::string lines = ::testing::internal::GetCapturedStderr();

  EXPECT_EQ(first, Claim::won);
  EXPECT_EQ(second, Claim::lost);
  EXPECT_EQ(lines, "rank 2 (n1): disk is gone\n");
  EXPECT_EQ(read_file(folder_ / "FAULT"), lines);
}

TEST_F(Fault, WithoutAFolderEveryRankSpeaks) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(claim_fault({}, "one"), Claim::won);
  EXPECT_EQ(claim_fault(folder_ / "absent", "two"), Claim::won);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "one\ntwo\n");
}

using WatchdogDeathTest = Fault;

TEST_F(WatchdogDeathTest, EndsAProcessThatStandsStill) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto stand_still = [&] {
    Watchdog watchdog(3, "node7", folder_, std::chrono::seconds(1));
    watchdog.beat(12, "forward");
    std::this_thread::sleep_for(std::chrono::seconds(60));
  };
  EXPECT_EXIT(stand_still(),
              ExitedWithCode(15),
              "^rank 3 \\(node7\\): no progress for 1 s in step 12, last action \"forward\"; see "
              ".*FAULT\n$");
}

TEST(Watchdog, LeavesAProcessThatMovesAlone) {
  Watchdog watchdog(0, "node7", {}, std::chrono::seconds(1));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  for (std::int64_t step = 0; std::chrono::steady_clock::now() < end; ++step) {
    watchdog.beat(step, "forward");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(Watchdog, ZeroSwitchesItOff) {
  Watchdog watchdog(0, "node7", {}, std::chrono::seconds(0));
  watchdog.beat(1, "forward");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

}  // namespace
}  // namespace cambium::comm
