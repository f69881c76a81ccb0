// SPDX-License-Identifier: Apache-2.0
#include "data/mtssl_data.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "config/campaign.hpp"
#include "scratch.hpp"

namespace cambium::data {
namespace {

using data::testing::refusal;
using data::testing::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Five classes c0 … c4 with 6 texts each, in turn.
std::string labelled_lines() {
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    lines += fmt::format("{{\"text\": \"text {}\", \"label\": \"c{}\"}}\n", i, i % 5);
  }
  return lines;
}

config::MtsslPhase make_phase(const Scratch& scratch) {
  config::MtsslPhase phase;
  phase.steps = 1;
  phase.labelled = scratch.write("train.jsonl", labelled_lines());
  phase.validation.path = scratch.write("test.jsonl", labelled_lines());
  phase.labelled_per_class = 2;
  phase.global_batch_size = 4;
  phase.sequence_length = 8;
  return phase;
}

TEST(MtsslData, KeepsSomeLabelsOfEachClassAndForgetsTheOthers) {
  const Scratch scratch;
  const MtsslData data = load_mtssl_data(make_phase(scratch), 1);

  EXPECT_EQ(data.labels.names(), (std::vector<std::string>{"c0", "c1", "c2", "c3", "c4"}));
  EXPECT_EQ(data.labelled.size(), 10);
  EXPECT_EQ(data.unlabelled.size(), 20);
  EXPECT_EQ(data.held_out.size(), 30);
  std::map<int, int> of_class;
  std::set<std::uint64_t> uids;
  for (dim_t i = 0; i < 10; ++i) {
    ++of_class[data.labelled.at(i).label];
    uids.insert(data.labelled.at(i).uid);
  }
  for (dim_t i = 0; i < 20; ++i) {
    EXPECT_EQ(data.unlabelled.at(i).label, -1);
    uids.insert(data.unlabelled.at(i).uid);
  }
  EXPECT_EQ(of_class, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}, {4, 2}}));
  EXPECT_EQ(uids.size(), 30U) << "no text is in both";
}

TEST(MtsslData, TheChoiceFollowsTheSeedAndNotTheSubset) {
  const Scratch scratch;
  config::MtsslPhase phase = make_phase(scratch);
  const auto chosen = [&](std::uint64_t seed) {
    std::set<std::uint64_t> uids;
    const MtsslData data = load_mtssl_data(phase, seed);
    for (dim_t i = 0; i < data.labelled.size(); ++i) {
      if (data.labels.names()[static_cast<std::size_t>(data.labelled.at(i).label)] == "c1") {
        uids.insert(data.labelled.at(i).uid);
      }
    }
    return uids;
  };
  const std::set<std::uint64_t> all = chosen(1);
  std::set<std::set<std::uint64_t>> over_seeds;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    over_seeds.insert(chosen(seed));
  }

  EXPECT_EQ(chosen(1), all);
  EXPECT_GT(over_seeds.size(), 1U);
  phase.labels = {"c4", "c1"};
  EXPECT_EQ(chosen(1), all);
  EXPECT_EQ(load_mtssl_data(phase, 1).held_out.size(), 12);
}

TEST(MtsslData, IntentsAreTheFirstNamesInOrder) {
  const Scratch scratch;
  config::MtsslPhase phase = make_phase(scratch);
  phase.intents = 3;

  const MtsslData data = load_mtssl_data(phase, 1);

  EXPECT_EQ(data.labels.names(), (std::vector<std::string>{"c0", "c1", "c2"}));
  EXPECT_EQ(data.labelled.size(), 6);
  EXPECT_EQ(data.unlabelled.size(), 12);
}

TEST(MtsslData, AFileOfItsOwnGivesTheUnlabelledTexts) {
  const Scratch scratch;
  config::MtsslPhase phase = make_phase(scratch);
  phase.unlabelled = scratch.write(
      "more.jsonl",
      "{\"text\": \"a\"}\n{\"text\": \"b\", \"label\": 7}\n{\"text\": \"c\"}\n{\"text\": \"d\"}\n");

  EXPECT_EQ(load_mtssl_data(phase, 1).unlabelled.size(), 4);

  phase.unlabelled = scratch.folder() / "." / "train.jsonl";
  EXPECT_EQ(load_mtssl_data(phase, 1).unlabelled.size(), 20)
      << "the labelled file itself: no label leaks";
}

TEST(MtsslData, RefusesWhatIsNotEnough) {
  const Scratch scratch;
  const auto message = [&](auto change) {
    config::MtsslPhase phase = make_phase(scratch);
    change(phase);
    return refusal([&] { (void)load_mtssl_data(phase, 1); });
  };
  EXPECT_THAT(message([](auto& p) { p.labelled_per_class = 7; }),
              HasSubstr("label c0 has 6 texts, expected at least labelled_per_class 7"));
  EXPECT_THAT(message([](auto& p) {
                p.labels = {"c0", "d1"};
              }),
              HasSubstr("no text has the label d1"));
  EXPECT_THAT(message([](auto& p) { p.intents = 6; }),
              HasSubstr("5 label names, expected at least intents 6"));
  EXPECT_THAT(message([](auto& p) { p.global_batch_size = 11; }),
              HasSubstr("10 labelled texts in use, expected at least global_batch_size 11"));
  EXPECT_THAT(
      message([](auto& p) { p.labelled_per_class = 0; }),
      HasSubstr(
          "0 unlabelled texts, expected at least global_batch_size 4 x unlabelled_ratio 1 = 4"));
  config::MtsslPhase control = make_phase(scratch);
  control.labelled_per_class = 0;
  control.threshold.kind = config::ThresholdKind::off;
  EXPECT_EQ(load_mtssl_data(control, 1).labelled.size(), 30);
}

TEST(MtsslData, WarnsOfReplacedCharactersInEveryFile) {
  const Scratch scratch;
  config::MtsslPhase phase = make_phase(scratch);
  phase.validation.path = scratch.write(
      "odd.jsonl",
      "{\"text\": \"a\", \"label\": \"c0\"}\n{\"text\": \"\\ud800\", \"label\": \"c1\"}\n");

  const MtsslData data = load_mtssl_data(phase, 1);

  ASSERT_EQ(data.warnings.size(), 1U);
  EXPECT_THAT(data.warnings[0],
              HasSubstr("odd.jsonl:2: 1 halves of surrogate pairs became U+FFFD"));
}

TEST(TextSet, CutsPadsAndNamesTheLastByte) {
  const TextSet set(
      {{.bytes = "abcdef", .label = 3, .uid = 1}, {.bytes = "xy", .label = -1, .uid = 2}});
  std::vector<std::int32_t> ids(12);
  std::vector<std::int32_t> last(3);
  std::vector<std::int32_t> labels(3);

  set.fill(std::vector<dim_t>{1, 0, -1}, 4, {.ids = ids, .last = last, .labels = labels});

  EXPECT_EQ(
      ids, (std::vector<std::int32_t>{'x', 'a', 257, 'y', 'b', 257, 257, 'c', 257, 257, 'd', 257}));
  EXPECT_EQ(last, (std::vector<std::int32_t>{1, 3, 0}));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{-1, 3, -1}));
}

TEST(StrongView, MasksTheSameBytesInAnyBatch) {
  const std::string bytes(200, 'q');
  const TextSet set(
      {{.bytes = bytes, .label = 0, .uid = 10}, {.bytes = bytes, .label = 0, .uid = 20}});
  const StrongMask mask{.seed = 4, .step = 9, .probability = 0.25};
  const auto masked = [&](const std::vector<dim_t>& samples, const StrongMask& how) {
    std::vector<std::int32_t> ids(samples.size() * 256);
    std::vector<std::int32_t> last(samples.size());
    std::vector<std::uint64_t> uids;
    for (const dim_t s : samples) {
      uids.push_back(set.at(s).uid);
    }
    const TextBatch batch{.ids = ids, .last = last, .labels = {}};
    set.fill(samples, 256, batch);
    mask_strongly(how, uids, 256, batch);
    return ids;
  };
  const std::vector<std::int32_t> alone = masked({1}, mask);
  const std::vector<std::int32_t> both = masked({0, 1}, mask);
  dim_t hits = 0;
  dim_t differ = 0;
  for (std::size_t t = 0; t < 256; ++t) {
    EXPECT_EQ(alone[t], both[2 * t + 1]);
    hits += alone[t] == config::kMaskId ? 1 : 0;
    differ += both[2 * t] != both[2 * t + 1] ? 1 : 0;
    EXPECT_EQ(alone[t] == config::kPadId, t >= 200);
  }
  EXPECT_GT(hits, 25);
  EXPECT_LT(hits, 80);
  EXPECT_GT(differ, 10) << "texts have their own numbers";
  EXPECT_NE(alone, masked({1}, {.seed = 4, .step = 10, .probability = 0.25}));
  EXPECT_NE(alone, masked({1}, {.seed = 5, .step = 9, .probability = 0.25}));
}

}  // namespace
}  // namespace cambium::data
