// SPDX-License-Identifier: Apache-2.0
#include "comm/signals.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cambium::comm {
namespace {

TEST(StopSignals, RememberTheFirstAndIgnoreRepeats) {
  const StopSignals signals;
  EXPECT_EQ(signals.pending(), 0);

  ::raise(SIGUSR1);
  ::raise(SIGTERM);
  ::raise(SIGUSR1);

  EXPECT_EQ(signals.pending(), SIGUSR1);
  EXPECT_STREQ(name_of_signal(signals.pending()), "SIGUSR1");
}

TEST(StopSignals, HearEachOfTheirThree) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) {
    const StopSignals signals;  // a new one starts afresh
    EXPECT_EQ(signals.pending(), 0);
    ::raise(signal);
    EXPECT_EQ(signals.pending(), signal);
  }
}

TEST(StopSignals, M09AClosedPipeIsAnErrorNotADeath) {
  const StopSignals signals;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);

  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);

  ::close(ends[1]);
}

TEST(StopSignals, GiveTheOldHandlersBack) {
  struct sigaction before {};

  struct sigaction within {};

  struct sigaction after {};

  ::sigaction(SIGUSR2, nullptr, &before);
  {
    const StopSignals signals;
    ::sigaction(SIGUSR2, nullptr, &within);
  }
  ::sigaction(SIGUSR2, nullptr, &after);

  EXPECT_NE(within.sa_handler, before.sa_handler);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopSignals, AreNamed) {
  EXPECT_STREQ(name_of_signal(SIGTERM), "SIGTERM");
  EXPECT_STREQ(name_of_signal(SIGUSR2), "SIGUSR2");
  EXPECT_STREQ(name_of_signal(SIGWINCH), "signal");
}

}  // namespace
}  // namespace cambium::comm
