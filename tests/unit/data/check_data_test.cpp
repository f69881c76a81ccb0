// SPDX-License-Identifier: Apache-2.0
#include "data/check_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scratch.hpp"

namespace cambium::data {
namespace {

using data::testing::refusal;
using data::testing::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path config_file(const char* name) {
  return std::filesystem::path(CAMBIUM_SOURCE_DIR) / "configs" / name;
}

TEST(CheckData, ShippedCampaignsHaveTheirData) {
  const std::vector<std::string> lines =
      check_data(config::load_campaign(config_file("quickstart.yaml")));

  EXPECT_THAT(lines,
              ::testing::Contains(HasSubstr(
                  "train.txt: 1003788 tokens, 7842 windows of 128 + 1, 11 tokens dropped")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("10 labels, 80 labelled")));
  EXPECT_NO_THROW(check_data(config::load_campaign(config_file("tiny/contract.yaml"))));
  EXPECT_NO_THROW(check_data(config::load_campaign(config_file("tiny/restart.yaml"))));
}

TEST(CheckData, AllProblemsComeAtOnceWithTheirPlaces) {
  const Scratch scratch;
  scratch.write("short.txt", "abc");
  const std::string text = R"(run: {name: x}
model: {hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 2}
parallel: {logical: {tensor: 1, data: 1}}
phases:
  - name: a
    kind: pretrain
    steps: 1
    global_batch_size: 1
    sequence_length: 8
    data: short.txt
    validation: nowhere.txt
  - {name: m, kind: mtssl, steps: 1, labelled: gone.jsonl, validation: gone.jsonl, global_batch_size: 2, sequence_length: 8}
  - {name: e, kind: evaluate, task: accuracy, data: gone.jsonl, sequence_length: 8}
)";
  const config::Campaign campaign = config::parse_campaign(text, scratch.folder() / "c.yaml");
  const std::string message = refusal([&] { check_data(campaign); });

  EXPECT_THAT(message,
              AllOf(HasSubstr("c.yaml:10: phases.a.data: "),
                    HasSubstr("3 tokens, expected at least sequence_length + 1 = 9")));
  EXPECT_THAT(message, HasSubstr("c.yaml:11: phases.a.validation: "));
  EXPECT_THAT(message, HasSubstr("c.yaml:12: phases.m.labelled: "));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

}  // namespace
}  // namespace cambium::data
