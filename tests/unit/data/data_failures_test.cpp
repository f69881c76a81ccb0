// tests/unit/data/data_failures_test.cpp — rows D01 … D09 of the list of real failure reports, as
// far as they touch text.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "data/json_lines.hpp"
#include "data/label_set.hpp"
#include "data/text_batches.hpp"
#include "data/token.hpp"
#include "scratch.hpp"

namespace cambium::data {
namespace {

using data::testing::refusal;
using data::testing::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refused_lines(const std::string& text) {
  return refusal([&] { (void)parse_json_lines(text, "d.jsonl", Labels::required); });
}

TEST(DataFailures, D01EmptyMissingAndUnreadableFilesAreRefused) {
  const Scratch scratch;
  const auto lines = [](const std::filesystem::path& path) {
    return refusal([&] { (void)read_json_lines(path, Labels::ignored); });
  };
  const auto corpus = [](const std::filesystem::path& path) {
    return refusal([&] { (void)TextCorpus::open(path, 4); });
  };
  const auto empty = scratch.write("empty", "");
  EXPECT_THAT(lines(empty), AllOf(HasSubstr(empty.string()), HasSubstr("0 records")));
  EXPECT_THAT(corpus(empty), AllOf(HasSubstr(empty.string()), HasSubstr("0 tokens")));
  EXPECT_THAT(lines(scratch.write("blank", "\n  \n")), HasSubstr("0 records in 2 lines"));
  EXPECT_THAT(lines(scratch.folder() / "*.jsonl"), HasSubstr("patterns are not expanded"));
  EXPECT_THAT(corpus(scratch.folder()), HasSubstr("a folder, expected a regular file"));
  EXPECT_THAT(corpus("/dev/null"), HasSubstr("no regular file"));
  const auto secret = scratch.write("secret", "text text");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (geteuid() == 0) {
    EXPECT_NO_THROW((void)TextCorpus::open(secret, 4)) << "root reads everything";
  } else {
    EXPECT_THAT(corpus(secret), AllOf(HasSubstr("cannot open"), HasSubstr("Permission denied")));
  }
}

TEST(DataFailures, D02TooShortCorporaAreRefusedAndExactFitsCount) {
  const Scratch scratch;
  const auto open = [&](std::size_t tokens) {
    return TextCorpus::open(scratch.write("t", std::string(tokens, 'x')), 32);
  };
  EXPECT_THAT(refusal([&] { open(10); }),
              HasSubstr("10 tokens, expected at least sequence_length + 1 = 33"));
  EXPECT_THAT(refusal([&] { open(32); }), HasSubstr("32 tokens"));
  EXPECT_EQ(open(33).samples(), 1);
  EXPECT_EQ(open(64).samples(), 1);
  EXPECT_EQ(open(65).samples(), 2);
  EXPECT_EQ(open(65).windows().dropped(), 0);
  config::PretrainPhase phase{.steps = 1, .global_batch_size = 4, .sequence_length = 32};
  phase.data = {{.path = scratch.write("three", std::string(3 * 32 + 1, 'x'))}};
  EXPECT_THAT(refusal([&] { TextBatches(phase, 1); }),
              HasSubstr("3 windows of 32 + 1 tokens, expected at least global_batch_size 4"));
}

TEST(DataFailures, D03WindowsLineEndsChangeNothing) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& text) {
    const TextCorpus corpus = TextCorpus::open(scratch.write("t", text), 8);
    std::vector<std::int32_t> ids(8);
    std::vector<std::int32_t> targets(8);
    corpus.fill(0, 0, 1, ids, targets);
    ids.push_back(static_cast<std::int32_t>(corpus.windows().tokens));
    return ids;
  };
  EXPECT_EQ(tokens("ab\r\nc\r\n\r\nd\r\nef"), tokens("ab\nc\n\nd\nef"));
  EXPECT_EQ(tokens("ab\rcdefgh\r")[2], '\r') << "a lone CR is data";

  const std::string lf =
      "{\"text\": \"a\", \"label\": \"x\"}\n\n{\"text\": \"b\\rc\", \"label\": \"y\"}";
  std::string crlf;
  for (const char c : lf) {
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  }
  const JsonLines plain = parse_json_lines(lf, "d", Labels::required);
  const JsonLines windows = parse_json_lines("\xEF\xBB\xBF" + crlf + "\r\n", "d", Labels::required);
  ASSERT_EQ(plain.records.size(), 2U) << "the last line needs no end";
  ASSERT_EQ(windows.records.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(windows.records[i].text, plain.records[i].text);
    EXPECT_EQ(windows.records[i].label, plain.records[i].label);
    EXPECT_EQ(windows.records[i].line, plain.records[i].line);
  }
  EXPECT_EQ(plain.records[1].text, "b\rc");
  EXPECT_EQ(plain.records[1].line, 3);
}

TEST(DataFailures, D04BadLinesAreNamedWithTheirNumber) {
  const std::string good = "{\"text\": \"a\", \"label\": \"x\"}\n";
  EXPECT_THAT(refused_lines(good + good + "{\"text\": \"abc\n" + good),
              AllOf(HasSubstr("d.jsonl:3:14: no valid JSON"),
                    HasSubstr("missing closing quote"),
                    Not(HasSubstr("line 1"))));
  EXPECT_THAT(refused_lines(good + "\n{\"txt\": \"x\"}\n"),
              HasSubstr("d.jsonl:3:1: expected a field \"text\", got none"));
  EXPECT_THAT(refused_lines(good + "{\"label\": \"x\", \"text\": 5}\n"),
              HasSubstr("d.jsonl:2:16: field \"text\": expected a text, got number"));
  EXPECT_THAT(
      refused_lines("[]\n"),
      HasSubstr("d.jsonl:1:1: expected an object with the field text and label, got array"));
  EXPECT_THAT(refused_lines("{\"text\": \"a\"}\n"), HasSubstr("expected a field \"label\""));
  EXPECT_THAT(refused_lines("{\"text\": \"a\", \"label\": \"\"}\n"),
              HasSubstr("field \"label\": expected at least one byte"));
  EXPECT_THAT(refused_lines(good + "{} {}\n"), HasSubstr("d.jsonl:2:"));
}

TEST(DataFailures, D05BrokenTextIsReplacedOrRefusedAndNeverKills) {
  const auto read = [](const std::string& text) {
    return parse_json_lines("{\"text\": \"" + text + "\"}\n", "d.jsonl", Labels::ignored);
  };
  const JsonLines lone = read("ok \\ud800 bad \\udc00\\ud83d");
  EXPECT_EQ(lone.records[0].text, "ok \xEF\xBF\xBD bad \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(lone.replaced, 3);
  EXPECT_EQ(lone.first_replaced, 1);
  EXPECT_EQ(read("\\ud83d\\ude00").records[0].text, "\xF0\x9F\x98\x80");
  EXPECT_EQ(read("\\ud83d\\ude00").replaced, 0);
  EXPECT_EQ(read("\\\\ud800").records[0].text, "\\ud800") << "an escaped backslash";
  EXPECT_EQ(read("a\\u0000b").records[0].text, std::string("a\0b", 3));
  EXPECT_EQ(read(std::string(2 << 20, 'x')).records[0].text.size(), std::size_t{2} << 20);
  EXPECT_EQ(read("שלום 😀").replaced, 0);
  EXPECT_THAT(refusal([&] { read("bad \xFF byte"); }),
              AllOf(HasSubstr("d.jsonl:1:15: no valid JSON"), HasSubstr("UTF-8")));
  EXPECT_THAT(refusal([&] { read(std::string(2 << 20, 'x') + "\xFF"); }).size(),
              ::testing::Lt(300U));
}

TEST(DataFailures, D07IdsOutsideTheVocabularyAreNamedOnTheHost) {
  const auto check = [](std::int32_t id) {
    const std::vector<std::int32_t> ids{0, 1, 2, 3, id, 5};
    return refusal([&] { check_ids(ids, 2, 258, "train.txt"); });
  };
  EXPECT_THAT(check(258), HasSubstr("train.txt: sample 0, offset 2: id 258, expected 0 … 257"));
  EXPECT_THAT(check(-1), HasSubstr("id -1"));
  EXPECT_THAT(check(static_cast<std::int32_t>(4294967295U)), HasSubstr("id -1"));
  EXPECT_NO_THROW(check_ids(std::vector<std::int32_t>{0, 257}, 1, 258, "x"));
}

TEST(DataFailures, D09OffsetsHave64Bits) {
  constexpr Windows kWindows{.tokens = 3'000'000'000, .sequence_length = 1024};

  EXPECT_EQ(kWindows.count(), 2929687);
  EXPECT_EQ(kWindows.offset(kWindows.count() - 1), 2929686LL * 1024);
  EXPECT_EQ(kWindows.dropped(), 3'000'000'000 - (2929687LL * 1024 + 1));
  const Sampler sampler(1, 1 << 20, {kWindows.count()});
  const SampleId far = sampler.at(1 << 20, 7);
  EXPECT_EQ(far.epoch, ((dim_t{1} << 40) - (dim_t{1} << 20) + 7) / kWindows.count());
  EXPECT_GE(far.sample, 0);
  EXPECT_LT(far.sample, kWindows.count());
}

}  // namespace
}  // namespace cambium::data
