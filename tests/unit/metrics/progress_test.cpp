// The live line, the batch lines, and readers that go away.
// SPDX-License-Identifier: Apache-2.0
#include "metrics/progress.hpp"

#include <array>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cambium::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::pipe(ends_.data()), 0);
  }

  ~Pipe() {
    close_reader();
    close_writer();
  }

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int writer() const {
    return ends_[1];
  }

  void close_reader() {
    ::close(std::exchange(ends_[0], -1));
  }

  void close_writer() {
    ::close(std::exchange(ends_[1], -1));
  }

  // All that was written; closes the writer's end.
  std::string read_all() {
    close_writer();
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::read(ends_[0], buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

 private:
  std::array<int, 2> ends_{};
};

ProgressUpdate at(dim_t phase_step) {
  return {.phase = "pretrain",
          .step = 100 + phase_step,
          .phase_step = phase_step,
          .phase_total = 20,
          .loss = 2.5,
          .tokens_per_second = 12345};
}

TEST(Progress, RewritesOneLineOnATerminal) {
  Pipe pipe;
  double clock = 0;
  {
    Progress progress({.file = pipe.writer(), .live = true, .clock = [&] { return clock; }});
    progress.update(at(1));
    clock = 3;
    progress.update(at(4));
    progress.line("checkpoint written");
    progress.update(at(20));
  }
  const std::string text = pipe.read_all();

  EXPECT_THAT(text, StartsWith("\rpretrain 1/20  loss 2.5000  12.3k tokens/s\rpretrain 4/20"));
  EXPECT_THAT(text, HasSubstr("ETA 0:16")) << "a second a step, sixteen left";
  EXPECT_THAT(text, HasSubstr("\rcheckpoint written\n\rpretrain 20/20"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, WritesPlainLinesInABatchLog) {
  Pipe pipe;
  double clock = 0;
  Progress progress(
      {.file = pipe.writer(), .attempt = 2, .every_seconds = 10, .clock = [&] { return clock; }});
  for (dim_t step = 1; step <= 20; ++step) {
    progress.update(at(step));
    clock += 3;
  }
  const std::string text = pipe.read_all();

  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, StartsWith("[attempt 2] step 101  pretrain 1/20  loss 2.5000"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 6)
      << "first, last, and one in 10 s of 3 s steps: 5, 9, 13, 17\n"
      << text;
}

TEST(Progress, CountsStepsWhereItIsAskedTo) {
  Pipe pipe;
  Progress progress({.file = pipe.writer(), .every_steps = 5, .clock = [] { return 0.0; }});
  for (dim_t step = 1; step <= 20; ++step) {
    progress.update(at(step));
  }

  EXPECT_EQ(std::ranges::count(pipe.read_all(), '\n'), 5);
}

// mpirun gives its ranks a pseudo-terminal even in a batch log.
TEST(Progress, BelievesATerminalOnlyWithoutALauncher) {
  EXPECT_TRUE(is_live(ProgressMode::automatic, false, true));
  EXPECT_FALSE(is_live(ProgressMode::automatic, true, true));
  EXPECT_FALSE(is_live(ProgressMode::automatic, false, false));
  EXPECT_TRUE(is_live(ProgressMode::live, true, false));
  EXPECT_FALSE(is_live(ProgressMode::plain, false, true));
}

// `| head -1`: without care the second write kills the run with SIGPIPE.
TEST(MetricsFailures, M09AReaderThatLeavesDoesNotKill) {
  Pipe pipe;
  pipe.close_reader();
  ASSERT_EXIT(
      {
        ::signal(SIGPIPE, SIG_DFL);
        Progress progress({.file = pipe.writer(), .every_steps = 1});
        progress.update(at(1));
        progress.update(at(2));
        progress.line("still here");
        sigset_t waiting;
        sigpending(&waiting);
        ::_exit(sigismember(&waiting, SIGPIPE) == 0 ? 7 : 8);
      },
      testing::ExitedWithCode(7),
      "");
}

TEST(MetricsFailures, M09AClosedStdoutIsSilent) {
  ASSERT_EXIT(
      {
        ::close(1);
        Progress progress({.file = 1, .every_steps = 1});
        progress.update(at(1));
        ::_exit(7);
      },
      testing::ExitedWithCode(7),
      "");
}

// Otherwise the first file that is opened becomes "stdout" and receives the messages.
TEST(MetricsFailures, M09ClosedStandardFilesAreOpenedOnNothing) {
  ASSERT_EXIT(
      {
        ::close(0);
        ::close(1);
        open_missing_standard_files();
        const int next = ::open("/dev/null", O_RDONLY);
        char byte = 0;
        const bool empty_input = ::read(0, &byte, 1) == 0;
        ::_exit(next > 2 && empty_input && ::write(1, "x", 1) == 1 ? 7 : 8);
      },
      testing::ExitedWithCode(7),
      "");
}

TEST(MetricsFailures, P05DurationsAreNeverNegative) {
  Stopwatch watch;
  double last = 0;
  for (int i = 0; i < 1000; ++i) {
    const double now = watch.seconds();
    ASSERT_GE(now, last);
    last = now;
  }
  watch.restart();
  EXPECT_GE(watch.seconds(), 0);
}

}  // namespace
}  // namespace cambium::metrics
