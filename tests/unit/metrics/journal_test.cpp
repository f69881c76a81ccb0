// Decisions that survive.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "metrics/writers.hpp"
#include "unit/metrics/temporary_folder.hpp"

namespace cambium::metrics {
namespace {

using testing::HasSubstr;

TEST(Journal, ReadsBackWhatWasDecided) {
  const TemporaryFolder run;
  EXPECT_TRUE(Journal::read(run.path()).empty());
  Journal journal(run.path(), 1);
  journal.write(
      200, "growth", {{"phase", "deeper"}, {"spec_hash", "ab"}, {"uids", 7}, {"lambda", 0.1}});
  journal.write(300, "stop");

  const std::vector<JournalEntry> entries = Journal::read(run.path());

  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].step, 200);
  EXPECT_EQ(entries[0].decision, "growth");
  EXPECT_EQ(entries[0].text("phase"), "deeper");
  EXPECT_EQ(entries[0].integer("uids"), 7);
  EXPECT_EQ(entries[0].number("lambda"), 0.1);
  EXPECT_TRUE(entries[0].has("uids"));
  EXPECT_FALSE(entries[1].has("uids"));
  EXPECT_THROW((void)entries[1].text("phase"), Error);
  EXPECT_THROW((void)entries[0].integer("lambda"), Error);
}

TEST(Journal, ALineWithoutItsEndWasNeverDecided) {
  const TemporaryFolder run;
  Journal(run.path(), 1).write(1, "growth");
  std::ofstream(run.path() / "journal.jsonl", std::ios::app)
      << R"({"attempt":1,"step":2,"decision":"growth"})";
  EXPECT_EQ(Journal::read(run.path()).size(), 1U)
      << "whole JSON, but its line break never reached the disk";

  Journal(run.path(), 2).write(3, "stop");

  const std::vector<JournalEntry> entries = Journal::read(run.path());
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].step, 3);
}

TEST(Journal, NamesTheLineThatIsNoDecision) {
  const TemporaryFolder run;
  Journal(run.path(), 1).write(1, "growth");
  std::ofstream(run.path() / "journal.jsonl", std::ios::app) << "{\"step\":\"two\"}\n";
  Journal(run.path(), 2).write(3, "stop");

  try {
    (void)Journal::read(run.path());
    FAIL() << "a damaged journal was followed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    EXPECT_THAT(error.what(), HasSubstr("journal.jsonl:2: expected a decision"));
  }
}

}  // namespace
}  // namespace cambium::metrics
