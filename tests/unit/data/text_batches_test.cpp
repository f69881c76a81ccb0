// SPDX-License-Identifier: Apache-2.0
#include "data/text_batches.hpp"

#include <gtest/gtest.h>
#include <numeric>

#include "data/token.hpp"
#include "scratch.hpp"

namespace cambium::data {
namespace {

using data::testing::Scratch;

TEST(TextCorpus, FillsColumnsPositionMajor) {
  const Scratch scratch;
  const TextCorpus corpus = TextCorpus::open(scratch.write("t.txt", "abcdefgh"), 3);
  std::vector<std::int32_t> ids(6, -1);
  std::vector<std::int32_t> targets(6, -1);

  ASSERT_EQ(corpus.samples(), 2);
  corpus.fill(1, 0, 2, ids, targets);
  corpus.fill(0, 1, 2, ids, targets);

  EXPECT_EQ(ids, (std::vector<std::int32_t>{'d', 'a', 'e', 'b', 'f', 'c'}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{'e', 'b', 'f', 'c', 'g', 'd'}));
  EXPECT_EQ(corpus.windows().dropped(), 1);
}

TEST(TextCorpus, BytesAbove127ArePositiveIds) {
  const Scratch scratch;
  const TextCorpus corpus = TextCorpus::open(scratch.write("t.txt", "\xFF\x80\x01"), 2);
  std::vector<std::int32_t> ids(2);
  std::vector<std::int32_t> targets(2);

  corpus.fill(0, 0, 1, ids, targets);

  EXPECT_EQ(ids, (std::vector<std::int32_t>{255, 128}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{128, 1}));
}

TEST(TextBatches, AMicroBatchIsTheSliceOfTheGlobalBatch) {
  const Scratch scratch;
  std::string text(401, ' ');
  std::iota(text.begin(), text.end(), 0);
  config::PretrainPhase phase{.steps = 1, .global_batch_size = 8, .sequence_length = 4};
  phase.data = {{.path = scratch.write("t.txt", text)}};
  const TextBatches batches(phase, 11);
  std::vector<std::int32_t> ids(32);
  std::vector<std::int32_t> targets(32);
  EXPECT_EQ(batches.fill(3, {0, 8}, ids, targets), 32);

  std::vector<std::int32_t> part(8);
  std::vector<std::int32_t> part_targets(8);
  EXPECT_EQ(batches.fill(3, {4, 6}, part, part_targets), 8);

  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t b = 0; b < 2; ++b) {
      EXPECT_EQ(part[t * 2 + b], ids[t * 8 + 4 + b]);
      EXPECT_EQ(part_targets[t * 2 + b], targets[t * 8 + 4 + b]);
    }
  }
}

TEST(OrderedText, PlacesBehindTheLastWindowCountForNothing) {
  const Scratch scratch;
  const OrderedText text(scratch.write("t.txt", "abcdefg"), 2, 2, 0);
  std::vector<std::int32_t> ids(4);
  std::vector<std::int32_t> targets(4);

  EXPECT_EQ(text.batches(), 2);
  EXPECT_EQ(text.valid_tokens(0), 4);
  EXPECT_EQ(text.valid_tokens(1), 2);
  EXPECT_EQ(text.fill(1, {0, 2}, ids, targets), 2);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'e', 0, 'f', 0}));
  EXPECT_EQ(targets, (std::vector<std::int32_t>{'f', kIgnoreTarget, 'g', kIgnoreTarget}));
}

TEST(OrderedText, TakesNoMoreBatchesThanThereAre) {
  const Scratch scratch;
  const auto path = scratch.write("t.txt", "abcdefg");

  EXPECT_EQ(OrderedText(path, 2, 2, 1).batches(), 1);
  EXPECT_EQ(OrderedText(path, 2, 2, 9).batches(), 2);
}

}  // namespace
}  // namespace cambium::data
