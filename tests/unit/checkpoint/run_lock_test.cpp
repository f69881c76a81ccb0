// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/run_lock.hpp"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A child process that holds the lock until it is killed.
pid_t start_owner(const fs::path& run, const char* job) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(run, job);
    const ssize_t sent = ::write(ready[1], "x", 1);
    for (; sent == 1;) {
      ::pause();
    }
    ::_exit(1);
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST(RunLock, GoesWithItsOwner) {
  const TemporaryFolder run;
  {
    const RunLock lock(run.path() / "new", "17");
    EXPECT_THAT(
        read_file(run.path() / "new/lock"),
        AllOf(HasSubstr("\"host\""), HasSubstr(std::to_string(::getpid())), HasSubstr("17")));
  }
  EXPECT_FALSE(fs::exists(run.path() / "new/lock"));
  const RunLock again(run.path() / "new", "18");
  EXPECT_EQ(again.stale_owner(), "");
}

TEST(CheckpointFailures, C11ASecondRunIsRefusedByNameAndAKilledOneIsStale) {
  const TemporaryFolder run;
  const pid_t owner = start_owner(run.path(), "4711");

  const std::string text = error_of(Code::usage, [&] { const RunLock second(run.path(), "4712"); });

  EXPECT_THAT(
      text,
      AllOf(HasSubstr("host "), HasSubstr("pid " + std::to_string(owner)), HasSubstr("job 4711")));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(fs::exists(run.path() / "lock"));
  const RunLock third(run.path(), "4713");
  EXPECT_THAT(third.stale_owner(), HasSubstr("job 4711"));
  EXPECT_THAT(read_file(run.path() / "lock"), HasSubstr("4713"));
}

TEST(RunLock, IsTakenOverARubbishFile) {
  const TemporaryFolder run;
  std::ofstream(run.path() / "lock") << "not json";

  const RunLock lock(run.path(), "");

  EXPECT_EQ(lock.stale_owner(), "");
}

TEST(RunLock, NamesAFolderThatCannotBe) {
  EXPECT_THAT(error_of(Code::storage, [] { const RunLock lock("/proc/none", ""); }),
              HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace cambium::checkpoint
