// metrics.jsonl and events.jsonl over kills and restarts.
// SPDX-License-Identifier: Apache-2.0
#include "metrics/writers.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "metrics/lines.hpp"
#include "metrics/log.hpp"
#include "metrics/run_files.hpp"
#include "unit/metrics/temporary_folder.hpp"

namespace cambium::metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<dim_t> steps_of(const std::filesystem::path& file) {
  std::vector<dim_t> steps;
  for (const std::string& line : read_lines(file)) {
    steps.push_back(nlohmann::json::parse(line)["step"].get<dim_t>());
  }
  return steps;
}

void write_steps(MetricsWriter& writer, dim_t first, dim_t last) {
  for (dim_t step = first; step <= last; ++step) {
    writer.write(
        {{"phase", "pretrain"}, {"step", step}, {"loss", 1.0 / static_cast<double>(step)}});
  }
}

TEST(MetricsWriter, WritesOneObjectALineWithItsAttempt) {
  const TemporaryFolder run;
  MetricsWriter writer(run.path(), 2);
  writer.write({{"step", 1}, {"loss", 0.25}});

  EXPECT_EQ(read_file(run.path() / "metrics.jsonl"), "{\"attempt\":2,\"step\":1,\"loss\":0.25}\n");
}

// Saved at 5, killed at 8, resumed to 12: each step once, the lost ones kept aside, each with its
// attempt.
TEST(MetricsFailures, P06StepsBehindTheCheckpointMoveToTheAttempt) {
  const TemporaryFolder run;
  MetricsWriter first(run.path(), 1);
  write_steps(first, 1, 8);
  MetricsWriter second(run.path(), 2);

  EXPECT_EQ(second.cut_after(5, make_attempt_folder(run.path(), 2)), 3);
  write_steps(second, 6, 12);

  EXPECT_THAT(steps_of(run.path() / "metrics.jsonl"),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(steps_of(run.path() / "attempt-2" / "metrics.jsonl"), ElementsAre(6, 7, 8));
  const std::vector<std::string> lines = read_lines(run.path() / "metrics.jsonl");
  EXPECT_THAT(lines[4], HasSubstr("\"attempt\":1"));
  EXPECT_THAT(lines[5], HasSubstr("\"attempt\":2"));
  EXPECT_EQ(second.cut_after(12, run.path() / "attempt-3"), 0);
  EXPECT_FALSE(std::filesystem::exists(run.path() / "attempt-3"));
}

// A phase's validation before its first update has the step of the phase before.
TEST(MetricsWriter, CutsWhatAPhaseRecordedBeforeItsFirstUpdate) {
  const TemporaryFolder run;
  MetricsWriter writer(run.path(), 1);
  writer.write({{"phase", "first"}, {"step", 5}, {"loss", 1.0}});
  writer.write({{"phase", "first"}, {"step", 5}, {"validation_loss", 1.0}});
  writer.write({{"phase", "second"}, {"step", 5}, {"validation_loss", 1.0}});

  EXPECT_EQ(writer.cut_after(5, make_attempt_folder(run.path(), 2), {"second", "third"}), 1);

  const std::vector<std::string> lines = read_lines(run.path() / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1], HasSubstr("first"));
  EXPECT_EQ(writer.cut_after(5, run.path() / "attempt-3"), 0);
}

TEST(MetricsWriter, PutsATornLineAsideBeforeItAppends) {
  const TemporaryFolder run;
  {
    MetricsWriter first(run.path(), 1);
    write_steps(first, 1, 2);
  }
  std::ofstream(run.path() / "metrics.jsonl", std::ios::app) << R"({"attempt":1,"st)";

  MetricsWriter second(run.path(), 2);
  write_steps(second, 3, 3);

  EXPECT_THAT(steps_of(run.path() / "metrics.jsonl"), ElementsAre(1, 2, 3));
  EXPECT_EQ(read_file(run.path() / "attempt-2" / "metrics.jsonl"), "{\"attempt\":1,\"st\n");
}

TEST(MetricsWriter, NamesThePathThatItCannotWrite) {
  const TemporaryFolder run;
  MetricsWriter writer(run.path() / "absent", 1);
  try {
    writer.write({{"step", 1}});
    FAIL() << "a write into an absent folder went unseen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::storage);
    EXPECT_THAT(error.what(), HasSubstr("absent/metrics.jsonl"));
  }
}

TEST(EventWriter, StampsTimeAndAttempt) {
  const TemporaryFolder run;
  EventWriter events(run.path(), 3);
  events.write("signal", {{"signal", "SIGUSR1"}, {"step", 7}});

  EXPECT_THAT(read_file(run.path() / "events.jsonl"),
              MatchesRegex("\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.["
                           "0-9]{3}Z\",\"attempt\":3,"
                           "\"event\":\"signal\",\"signal\":\"SIGUSR1\",\"step\":7\\}\n"));
}

// A requeued job keeps its id; the run directory counts the starts.
TEST(MetricsFailures, S04AttemptsAreCountedAndLogsAppended) {
  const TemporaryFolder run;
  EXPECT_EQ(next_attempt(run.path()), 1);
  make_attempt_folder(run.path(), 1);
  make_attempt_folder(run.path(), 10);
  std::filesystem::create_directory(run.path() / "attempt-99x");
  EXPECT_EQ(next_attempt(run.path()), 11);

  Log(run.path(), 1).info("first {try}");
  Log(run.path(), 2).warn("second");

  EXPECT_THAT(read_lines(run.path() / "log.txt"),
              ElementsAre(HasSubstr("[attempt 1] [info] first {try}"),
                          HasSubstr("[attempt 2] [warning] second")));
}

TEST(Log, OfOtherRanksWritesNothing) {
  Log silent;
  silent.info("nothing");
  silent.error("nothing");
}

TEST(RunFiles, AreWholeJson) {
  const TemporaryFolder run;
  write_timeline(run.path(), 5, {{.rank = 1, .stage = 1, .actions = {{"forward", 2, 1.5, 2.5}}}});
  write_ranks(run.path(), {{{"rank", 0}, {"parameter_bytes", 1024}}});

  const nlohmann::json timeline = nlohmann::json::parse(read_file(run.path() / "timeline.json"));
  EXPECT_EQ(timeline["step"], 5);
  EXPECT_EQ(timeline["ranks"][0]["stage"], 1);
  EXPECT_EQ(timeline["ranks"][0]["actions"][0]["end_us"], 2.5);
  EXPECT_EQ(nlohmann::json::parse(read_file(run.path() / "ranks.json"))[0]["parameter_bytes"],
            1024);
}

}  // namespace
}  // namespace cambium::metrics
