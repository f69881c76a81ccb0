// Report and summary say what the run's files say.
// SPDX-License-Identifier: Apache-2.0
#include "metrics/report.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "metrics/run_files.hpp"
#include "metrics/writers.hpp"
#include "unit/metrics/temporary_folder.hpp"

namespace cambium::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

// Every tag of the page that is opened is closed, in order. Void elements and self-closing ones
// aside.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(
        tag.starts_with('/') ? 1 : 0, tag.find_first_of(" /", 1) - (tag.starts_with('/') ? 1 : 0));
    if (tag.starts_with('!') || name == "meta" || tag.ends_with('/')) {
      continue;
    }
    if (tag.starts_with('/')) {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

void train(
    MetricsWriter& metrics, const std::string& phase, dim_t first, dim_t last, double start) {
  for (dim_t step = first; step <= last; ++step) {
    metrics.write({{"phase", phase},
                   {"kind", "pretrain"},
                   {"step", step},
                   {"loss", start * std::exp(-0.01 * static_cast<double>(step - first))},
                   {"grad_norm", 1.0},
                   {"learning_rate", 1e-3},
                   {"tokens", 4096},
                   {"tokens_per_second", 4096.0 / 0.5},
                   {"seconds", 0.5}});
  }
}

void semi_supervised(MetricsWriter& metrics,
                     const std::string& phase,
                     dim_t first,
                     dim_t last,
                     bool control,
                     double accuracy) {
  for (dim_t step = first; step <= last; ++step) {
    Fields row{{"phase", phase},
               {"kind", "mtssl"},
               {"step", step},
               {"loss", 3.5},
               {"supervised_loss", 3.25},
               {"tokens", 1000},
               {"seconds", 0.25}};
    if (!control) {
      row.add_all({{"tau", 0.8},
                   {"threshold", 0.7 - 0.001 * static_cast<double>(step - first)},
                   {"coverage", 0.4},
                   {"pseudo_label_precision", 0.9}});
    }
    metrics.write(row);
  }
  metrics.write({{"phase", phase},
                 {"kind", "mtssl"},
                 {"step", last},
                 {"accuracy", accuracy},
                 {"examples", 400}});
}

void write_campaign(const std::filesystem::path& run,
                    double semi_accuracy,
                    double control_accuracy) {
  MetricsWriter metrics(run, 1);
  EventWriter events(run, 1);
  events.write("phase_started", {{"phase", "pretrain"}, {"kind", "pretrain"}, {"step", 0}});
  train(metrics, "pretrain", 1, 60, 5.5);
  metrics.write(
      {{"phase", "pretrain"}, {"step", 30}, {"validation_loss", 4.5}, {"validation_tokens", 999}});
  metrics.write({{"phase", "pretrain"},
                 {"step", 60},
                 {"validation_loss", 3.625},
                 {"validation_tokens", 999}});
  events.write("phase_finished",
               {{"phase", "pretrain"}, {"kind", "pretrain"}, {"step", 60}, {"seconds", 30.0}});
  events.write("started",
               {{"step", 0}, {"checkpoint", ""}, {"lines_cut", 0}, {"to_layout", "2x2x1x2"}});
  events.write("phase_started", {{"phase", "deeper"}, {"kind", "grow"}, {"step", 60}});
  const Fields growth{
      {"phase", "deeper"},
      {"step", 60},
      {"operations", std::vector<std::string>{"insert_layers {after: 2, count: 2}"}},
      {"committed", true},
      {"probe_max_difference", 0.0},
      {"probe_values", 262144},
      {"nodes", 120},
      {"nodes_recomputed", 31},
      {"bytes_moved", 1536},
      {"seconds", 0.21},
      {"parameters_before", 1200000},
      {"parameters_after", 1600000}};
  events.write("growth", growth);
  events.write("growth", growth);  // repeated by a restart
  events.write("phase_finished", {{"phase", "deeper"}, {"kind", "grow"}, {"step", 60}});
  events.write("restart",
               {{"step", 60},
                {"checkpoint", "step-00000060"},
                {"from_layout", "2x2x1x2"},
                {"to_layout", "1x4x1x2"}});
  train(metrics, "continue", 61, 100, 3.0);
  events.write("phase_started",
               {{"phase", "intents"}, {"kind", "mtssl"}, {"step", 100}, {"threshold", "learned"}});
  semi_supervised(metrics, "intents", 101, 140, false, semi_accuracy);
  events.write(
      "phase_started",
      {{"phase", "intents-control"}, {"kind", "mtssl"}, {"step", 140}, {"threshold", "off"}});
  semi_supervised(metrics, "intents-control", 141, 180, true, control_accuracy);
  events.write("checkpoint",
               {{"step", 180}, {"path", "step-00000180"}, {"bytes", 1048576}, {"seconds", 0.5}});
  write_timeline(
      run,
      5,
      {{.rank = 0,
        .stage = 0,
        .actions = {{"forward", 0, 0, 4000}, {"backward_weight", 0, 8000, 10000}}},
       {.rank = 1,
        .stage = 1,
        .actions = {{"receive_activation", 0, 0, 4000}, {"backward_input", 0, 4000, 8000}}}});
  write_ranks(run,
              {{{"rank", 0}, {"host", "a"}, {"parameter_bytes", 2048}, {"bytes_sent", 1024}},
               {{"rank", 1}, {"host", "a"}, {"parameter_bytes", 3072}, {"bytes_sent", 1024}}});
  write_file_atomically(run / "config.yaml", "run: {name: \"<quick & dirty>\"}\n");
  std::filesystem::create_directory(run / "checkpoints");
  std::filesystem::create_symlink("step-00000180", run / "checkpoints" / "latest");
}

TEST(Report, IsOneWellFormedPageWithAllParts) {
  const TemporaryFolder run;
  write_campaign(run.path(), 0.712, 0.698);

  const std::string page = make_report(run.path());

  expect_well_formed(page);
  for (const char* part : {"<h2>Phases</h2>",
                           "<h2>Loss</h2>",
                           "<h2>Growth</h2>",
                           "<h2>Semi-supervised phases</h2>",
                           "<h2>Pipeline timeline</h2>",
                           "<h2>Checkpoints, restarts, signals</h2>",
                           "<h2>Ranks</h2>",
                           "Config as resolved",
                           "prefers-color-scheme: dark"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, HasSubstr("growth: deeper</text>"));
  EXPECT_THAT(page, HasSubstr("no difference in 262,144 probe logits"));
  EXPECT_THAT(page, HasSubstr("31 of 120"));
  EXPECT_THAT(page, HasSubstr("&lt;quick &amp; dirty&gt;"));
  EXPECT_THAT(page, HasSubstr("rank 1: stage 1, t 0, d 0"));
  EXPECT_THAT(page, HasSubstr("backward_input of micro-batch 0: 4.00 ms"));
  EXPECT_THAT(page, HasSubstr("+1.40 points"));
  EXPECT_THAT(page, HasSubstr("2x2x1x2"));
  EXPECT_THAT(page,
              HasSubstr("<td class=\"wrap\"><span class=\"key\">to layout</span> 2x2x1x2</td>"))
      << "fields that say nothing are left out";
  EXPECT_THAT(page, HasSubstr("<h3>Messages</h3>"));
  EXPECT_THAT(page, HasSubstr("3.00 KiB"));
  for (const char* outside : {"http:", "https:", "src=", "<script", "<link", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << "not self-contained";
  }
}

TEST(Summary, TellsTheCampaignFromItsFiles) {
  const TemporaryFolder run;
  write_campaign(run.path(), 0.712, 0.698);
  write_file_atomically(run.path() / "report.html", make_report(run.path()));

  const std::string text = make_summary(run.path());

  EXPECT_THAT(text, HasSubstr(fmt::format("5.5000 -> {:.4f}", 5.5 * std::exp(-0.59))));
  EXPECT_THAT(text, HasSubstr("4.5000 -> 3.6250"));
  EXPECT_THAT(text, HasSubstr(fmt::format("3.0000 -> {:.4f}", 3.0 * std::exp(-0.39))));
  EXPECT_THAT(text,
              HasSubstr("Growth 'deeper' after step 60\n  insert_layers {after: 2, count: 2}\n"));
  EXPECT_EQ(text.find("Growth 'deeper'"), text.rfind("Growth 'deeper'"))
      << "one surgery, told once";
  EXPECT_THAT(text, HasSubstr("1,200,000 -> 1,600,000"));
  EXPECT_THAT(text, HasSubstr("no difference in 262,144 probe logits"));
  EXPECT_THAT(text, HasSubstr("31 of 120 plan nodes recomputed, 1.50 KiB moved, pause 210 ms"));
  EXPECT_THAT(text,
              HasSubstr("intents: accuracy 71.20 % on 400 held-out examples, threshold 0.700 -> "
                        "0.661, coverage 40.00 %"));
  EXPECT_THAT(
      text,
      HasSubstr("intents-control: accuracy 69.80 % on 400 held-out examples (supervised control)"));
  EXPECT_THAT(text, HasSubstr("semi-supervised training is ahead by 1.40 points"));
  EXPECT_THAT(text, HasSubstr("layout 2x2x1x2 -> 1x4x1x2"));
  EXPECT_THAT(text, HasSubstr("Each of 2 ranks\n  parameters     2.00 KiB to 3.00 KiB\n"));
  EXPECT_THAT(text, HasSubstr("  sent           1.00 KiB\n"));
  EXPECT_THAT(text, HasSubstr("report.html"));
  EXPECT_THAT(text, HasSubstr("(latest: step-00000180)"));
}

// An evaluation has no updates, and one value that is no way from somewhere to somewhere.
TEST(Summary, ShowsAnEvaluationOnce) {
  const TemporaryFolder run;
  MetricsWriter metrics(run.path(), 1);
  metrics.write(
      {{"phase", "held_out"}, {"kind", "evaluate"}, {"step", 7}, {"validation_loss", 1.5}});

  const std::string text = make_summary(run.path());

  EXPECT_THAT(text, HasSubstr("held_out"));
  EXPECT_THAT(text, HasSubstr("1.5000"));
  EXPECT_THAT(text, Not(HasSubstr("1.5000 ->")));
  EXPECT_THAT(make_report(run.path()), HasSubstr("<b>1.5000</b>"));
  EXPECT_THAT(make_report(run.path()), Not(HasSubstr("1.5000 →")));
}

TEST(Summary, NamesTheControlWhenItWinsAndSaysEqualWhenNobodyDoes) {
  const TemporaryFolder lost;
  write_campaign(lost.path(), 0.5, 0.525);
  EXPECT_THAT(make_summary(lost.path()),
              HasSubstr("the supervised control is ahead by 2.50 points"));

  const TemporaryFolder equal;
  write_campaign(equal.path(), 0.5, 0.5);
  EXPECT_THAT(make_summary(equal.path()),
              HasSubstr("intents and its control intents-control are equal"));
}

TEST(Summary, DoesNotCallADifferenceNone) {
  const TemporaryFolder run;
  EventWriter events(run.path(), 1);
  events.write(
      "growth",
      {{"phase", "g"}, {"step", 3}, {"committed", false}, {"probe_max_difference", 1.5e-7}});

  const std::string text = make_summary(run.path());

  EXPECT_THAT(text, HasSubstr("rolled back"));
  EXPECT_THAT(text, HasSubstr("largest difference 1.5e-07"));
  EXPECT_THAT(text, Not(HasSubstr("no difference")));
}

// 0 and -0 differ by nothing but a bit: growth promises bits.
TEST(Summary, CountsLogitsThatDifferInABitOnly) {
  const TemporaryFolder run;
  EventWriter events(run.path(), 1);
  events.write("growth",
               {{"phase", "g"},
                {"step", 3},
                {"probe_max_difference", 0.0},
                {"probe_values", 1000},
                {"probe_differing", 2}});

  EXPECT_THAT(make_summary(run.path()), HasSubstr("2 of 1,000 probe logits differ, by at most 0"));
}

TEST(Report, LeavesOutWhatARunDoesNotHave) {
  const TemporaryFolder run;
  MetricsWriter metrics(run.path(), 1);
  train(metrics, "only", 1, 1, 2.0);
  metrics.write({{"phase", "only"}, {"step", 2}, {"loss", std::nan("")}});
  std::ofstream(run.path() / "metrics.jsonl", std::ios::app) << "{\"attempt\":1,\"st";

  const std::string page = make_report(run.path());

  expect_well_formed(page);
  for (const char* part :
       {"<h2>Growth</h2>", "<h2>Semi-supervised", "<h2>Pipeline", "<h2>Ranks", "Config as"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
  EXPECT_THAT(page, HasSubstr("no JSON and were left out: 1."));
  EXPECT_THAT(page, Not(HasSubstr(">nan")));
  EXPECT_THAT(make_summary(run.path()), HasSubstr("2.0000 -> not finite"));
}

TEST(Report, OfAFolderThatIsNoRunIsRefused) {
  const TemporaryFolder empty;
  for (const std::filesystem::path& path : {empty.path(), empty.path() / "absent"}) {
    try {
      (void)make_report(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("expected a run directory"));
    }
  }
}

}  // namespace
}  // namespace cambium::metrics
