// tests/unit/config/config_failures_test.cpp — rows Y01 … Y10 of the list of real failure reports.
// SPDX-License-Identifier: Apache-2.0
#include <clocale>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <locale>

#include "base_campaign.hpp"
#include "config/check_campaign.hpp"

namespace cambium::config {
namespace {

using namespace config::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ConfigFailures, Y01EverySpellingOfANumberGivesTheSameDouble) {
  for (const char* spelling : {"1e-4", "1.e-4", "1E-4", ".0001", "1.0e-04", "+1e-4"}) {
    const Campaign c = parse(base_with("peak: 1e-3", std::string("peak: ") + spelling));
    EXPECT_EQ(pretrain_of(c).learning_rate.peak, 1e-4) << spelling;
    EXPECT_THAT(resolved_yaml(c), HasSubstr("peak: 1e-04\n")) << spelling;
  }
  EXPECT_THAT(refusal(base_with("peak: 1e-3", "peak: \"1e-4\"")),
              AllOf(HasSubstr("base.yaml:23: phases.pretrain.learning_rate.peak"),
                    HasSubstr("remove the quotes")));
}

TEST(ConfigFailures, Y02DuplicateKeysAreRefused) {
  const std::string twice = kBase + "checkpoint: {keep_last: 2}\n";
  EXPECT_THAT(refusal(twice),
              HasSubstr("checkpoint: the key stands twice, on lines 14 and 24; keep one"));
  EXPECT_EQ(refusal(twice), refusal(twice));
  std::string far = base_with("seed: 1}", "seed: 1,");
  far.insert(far.find("model:"), std::string(40, '\n') + "  seed: 2}\n");
  EXPECT_THAT(refusal(far), HasSubstr("run.seed: the key stands twice, on lines 1 and 42"));
  EXPECT_THAT(refusal(base_with("steps: 10\n", "steps: 10\n    steps: 10\n")),
              HasSubstr("phases.pretrain.steps: the key stands twice, on lines 18 and 19"));
}

TEST(ConfigFailures, Y03MergeKeysAreMergedAndTheLocalKeyWins) {
  const auto optimizer = [](const std::string& text) {
    const Campaign c = parse(
        base_with("{eps: 1e-8}", "&d {eps: 1e-6, weight_decay: 0.3}") +
        "  - {name: b, kind: pretrain, steps: 1, global_batch_size: 4, sequence_length: 8, data: d,"
        " optimizer: " +
        text + "}\n");
    return std::get<PretrainPhase>(c.phases.at(1).settings).optimizer;
  };
  EXPECT_EQ(optimizer("{<<: *d, weight_decay: 0.0}").eps, 1e-6);
  EXPECT_EQ(optimizer("{<<: *d, weight_decay: 0.0}").weight_decay, 0.0);
  EXPECT_EQ(optimizer("{weight_decay: 0.0, <<: *d}").weight_decay, 0.0);
  EXPECT_EQ(optimizer("{<<: [{eps: 1e-5}, *d]}").eps, 1e-5);
  EXPECT_EQ(optimizer("{<<: [{eps: 1e-5}, *d]}").weight_decay, 0.3);
  EXPECT_EQ(optimizer("*d").weight_decay, 0.3);
  EXPECT_THAT(refusal(base_with("{eps: 1e-8}", "{<<: 3}")),
              HasSubstr("base.yaml:22: <<: expected a map"));
}

TEST(ConfigFailures, Y04UnknownKeysNameTheNearest) {
  EXPECT_THAT(refusal(base_with("{peak: 1e-3}", "{peak: 1e-3, warmup_step: 100}")),
              HasSubstr("base.yaml:23: phases.pretrain.learning_rate.warmup_step: unknown key; did "
                        "you mean warmup_steps?"));
  EXPECT_THAT(refusal(base_with("hidden_size: 64", "hidden_szie: 64")),
              HasSubstr("base.yaml:3: model.hidden_szie: unknown key; did you mean hidden_size?"));
  EXPECT_THAT(
      refusal(base_with("hidden_size: 64", "hidden_size: 64\n  micro_batch_size: 2")),
      HasSubstr(
          "model.micro_batch_size: unknown key; the key belongs to parallel.micro_batch_size"));
  EXPECT_THAT(
      refusal(base_with("seed: 1", "on_nonfinite: {skip_limt: 3}")),
      HasSubstr("base.yaml:1: run.on_nonfinite.skip_limt: unknown key; did you mean skip_limit?"));
  EXPECT_THAT(refusal(base_with("{peak: 1e-3}", "{lr: 1e-3}")), HasSubstr("learning_rate.peak"));
  EXPECT_THAT(refusal(kBase + "modle: {}\n"), HasSubstr("modle: unknown key; did you mean model?"));
}

TEST(ConfigFailures, Y05LeadingZerosAreDecimal) {
  EXPECT_EQ(pretrain_of(parse(base_with("steps: 10", "steps: 0010"))).steps, 10);
  EXPECT_EQ(pretrain_of(parse(base_with("steps: 10", "steps: 0100"))).steps, 100);
  EXPECT_EQ(pretrain_of(parse(base_with("steps: 10", "steps: 08"))).steps, 8);
  EXPECT_THAT(refusal(base_with("steps: 10", "steps: 0o17")),
              HasSubstr("phases.pretrain.steps: expected a whole decimal number"));
  EXPECT_THAT(refusal(base_with("steps: 10", "steps: 0x10")), HasSubstr("got 0x10"));
}

TEST(ConfigFailures, Y06OnlyTheDocumentedWordsAreFlagsAndTextsStayTexts) {
  for (const char* word : {"no", "off", "\"false\"", "y", "True", "0", "null", ""}) {
    const std::string text =
        base_with("vocab_size: 256", std::string("tie_word_embeddings: ") + word);
    EXPECT_THAT(refusal(text),
                HasSubstr("base.yaml:9: model.tie_word_embeddings: expected true or false"))
        << word;
  }
  EXPECT_TRUE(
      parse(base_with("vocab_size: 256", "tie_word_embeddings: true")).model.tie_word_embeddings);
  EXPECT_THAT(refusal(base_with("seed: 1", "resume: no")),
              HasSubstr("run.resume: expected one of auto, must, never"));
  for (const char* name : {"no", "007", "null", "off"}) {
    const Campaign c = parse(base_with("name: base", std::string("name: ") + name));
    EXPECT_EQ(c.run.name, name);
    EXPECT_EQ(parse_campaign(resolved_yaml(c), "base.yaml").run.name, name);
  }
}

TEST(ConfigFailures, Y07TabsAreNamedAndHarmlessOnesLoad) {
  EXPECT_THAT(refusal("run: {name: x}\nmodel:\n\thidden_size: 2\n"),
              HasSubstr("base.yaml:3:1: a tab in the indentation"));
  EXPECT_THAT(refusal("model:\n  a: 1\n  \tb: 2\n"), HasSubstr("base.yaml:3:3: a tab"));
  const Campaign base = parse(kBase);
  EXPECT_TRUE(parse(base_with("every_steps: 5}\n", "every_steps: 5}\t# note\n\t# another\n\t\n")) ==
              base);
  std::string crlf;
  for (const char c : kBase) {
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  }
  EXPECT_TRUE(parse(crlf) == base);
  EXPECT_TRUE(parse("\xEF\xBB\xBF" + kBase) == base);
}

// Decimal comma and thousands points, without needing an installed locale.
struct GermanNumbers : std::numpunct<char> {
  char do_decimal_point() const override {
    return ',';
  }

  char do_thousands_sep() const override {
    return '.';
  }

  std::string do_grouping() const override {
    return "\3";
  }
};

TEST(ConfigFailures, Y08NumbersDoNotDependOnTheLocale) {
  const std::string text = base_with("peak: 1e-3", "peak: 0.00125");
  const std::string big = base_with("steps: 10", "steps: 1234567");
  const std::string plain = resolved_yaml(parse(text)) + resolved_yaml(parse(big)) +
                            refusal(base_with("steps: 10", "steps: -1234567"));
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new GermanNumbers));
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed

  const std::string german = resolved_yaml(parse(text)) + resolved_yaml(parse(big)) +
                             refusal(base_with("steps: 10", "steps: -1234567"));

  std::setlocale(LC_ALL, "C");
  std::locale::global(before);
  EXPECT_EQ(german, plain);
}

TEST(ConfigFailures, Y09BatchesThatDoNotMultiplyOutAreRefusedWithAllNumbers) {
  const auto batch = [](int global, const std::string& micro, int data) {
    std::string text =
        base_with("global_batch_size: 4", "global_batch_size: " + std::to_string(global));
    text.replace(text.find("micro_batch_size: 2"), 19, "micro_batch_size: " + micro);
    return text.replace(text.find("data: 1}"), 8, "data: " + std::to_string(data) + "}");
  };
  EXPECT_THAT(refusal(batch(10, "4", 2)),
              AllOf(HasSubstr("base.yaml:19: phases.pretrain.global_batch_size: global_batch_size "
                              "10 = micro_batch_size 4 x "
                              "accumulation x logical data 2"),
                    HasSubstr("nearest valid global_batch_size 8 or 16"),
                    HasSubstr("micro_batch_size one of 1, 5")));
  EXPECT_THAT(
      refusal(batch(4, "0", 1)),
      HasSubstr("parallel.micro_batch_size: expected a whole decimal number of at least 1, got 0"));
  EXPECT_THAT(refusal(batch(4, "8", 1)), HasSubstr("nearest valid global_batch_size 8, or"));
  EXPECT_THAT(refusal(base_with("micro_batch_size: 2",
                                "micro_batch_size: 2\n  gradient_accumulation_steps: 3")),
              HasSubstr("it is global_batch_size / (micro_batch_size x logical data)"));
}

TEST(ConfigFailures, Y10HeadsThatDoNotDivideAreRefusedWithValidSizes) {
  const auto heads = [](int hidden, int count, int kv, int tensor) {
    std::string text = base_with("hidden_size: 64", "hidden_size: " + std::to_string(hidden));
    text.replace(
        text.find("num_attention_heads: 4"), 22, "num_attention_heads: " + std::to_string(count));
    text.replace(
        text.find("num_key_value_heads: 2"), 22, "num_key_value_heads: " + std::to_string(kv));
    return text.replace(text.find("tensor: 1"), 9, "tensor: " + std::to_string(tensor));
  };
  EXPECT_THAT(refusal(heads(96, 12, 12, 8)),
              HasSubstr("8 logical tensor shards do not divide model.num_key_value_heads 12; valid "
                        "sizes: 1, 2, 3, 4, 6, 12"));
  EXPECT_THAT(refusal(heads(64, 8, 2, 4)),
              HasSubstr("model.num_key_value_heads 2; valid sizes: 1, 2"));
  EXPECT_THAT(refusal(heads(66, 33, 2, 1)),
              HasSubstr("2 key/value heads do not divide model.num_attention_heads 33"));
  EXPECT_THAT(refusal(heads(65, 4, 2, 1)), HasSubstr("4 heads do not divide model.hidden_size 65"));
  // The same through the physical size alone.
  std::string physical = heads(96, 12, 12, 1);
  physical.replace(physical.find("  logical: {tensor: 1, data: 1}"), 31, "  tensor: 8");
  EXPECT_THAT(refusal(physical),
              HasSubstr("parallel.tensor: 8 logical tensor shards do not divide"));
}

TEST(ConfigFailures, D07AVocabularyWithoutRoomForItsIdsIsRefused) {
  EXPECT_THAT(refusal(base_with("vocab_size: 256", "vocab_size: 255")),
              HasSubstr("model.vocab_size: expected at least 256"));
  const std::string mtssl =
      "  - {name: m, kind: mtssl, steps: 1, labelled: a, validation: b, global_batch_size: 4, "
      "sequence_length: 8}\n";
  EXPECT_THAT(refusal(kBase + mtssl),
              HasSubstr("expected at least 258 (256 bytes, mask id 256, pad id 257), got 256"));
  EXPECT_EQ(vocabulary_size(parse(base_with("vocab_size: 256", "vocab_size: auto") + mtssl)), 258);
}

}  // namespace
}  // namespace cambium::config
