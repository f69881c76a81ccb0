// SPDX-License-Identifier: Apache-2.0
#include "config/campaign.hpp"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base_campaign.hpp"
#include "config/key_names.hpp"

namespace cambium::config {
namespace {

using namespace config::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::filesystem::path config_file(const char* name) {
  return std::filesystem::path(CAMBIUM_SOURCE_DIR) / "configs" / name;
}

TEST(Campaign, QuickstartLoads) {
  const Campaign c = load_campaign(config_file("quickstart.yaml"));

  ASSERT_EQ(c.phases.size(), 6U);
  EXPECT_EQ(c.phases[1].kind(), "grow");
  EXPECT_EQ(c.phases[1].steps(), 0);
  EXPECT_EQ(vocabulary_size(c), 258);
  EXPECT_EQ(c.model.head_size(), 16);
  const auto& grow = std::get<GrowPhase>(c.phases[1].settings);
  ASSERT_EQ(grow.operations.size(), 2U);
  EXPECT_EQ(std::get<InsertGatedResidual>(grow.operations[0]).after, "layers.1.mlp");
  EXPECT_EQ(std::get<InsertLayers>(grow.operations[1]), (InsertLayers{.after = 2, .count = 2}));
  EXPECT_TRUE(std::filesystem::exists(pretrain_of(c).data.at(0).path));
  EXPECT_EQ(std::get<MtsslPhase>(c.phases[5].settings).threshold.kind, ThresholdKind::off);
  EXPECT_EQ(phase_index(c, "intents"), 4U);
  EXPECT_THROW((void)phase_index(c, "intent"), Error);
}

TEST(Campaign, TinyConfigsLoad) {
  for (const auto& entry : std::filesystem::directory_iterator(config_file("tiny"))) {
    EXPECT_NO_THROW((void)load_campaign(entry.path())) << entry.path();
  }
}

TEST(Campaign, ResolvedFileGivesTheSameCampaign) {
  for (const char* name : {"quickstart.yaml", "tiny/contract.yaml", "tiny/restart.yaml"}) {
    const Campaign c = load_campaign(config_file(name));
    const std::string resolved = resolved_yaml(c);

    const Campaign again = parse_campaign(resolved, "/elsewhere/config.yaml");

    EXPECT_TRUE(again == c) << resolved;
    EXPECT_EQ(resolved_yaml(again), resolved);
  }
}

TEST(Campaign, ResolvedFileShowsDefaults) {
  const std::string resolved = resolved_yaml(parse(kBase));

  EXPECT_THAT(resolved, HasSubstr("watchdog_seconds: 600\n"));
  EXPECT_THAT(resolved, HasSubstr("directory: runs/base\n"));
  EXPECT_THAT(resolved, HasSubstr("sequence_parallel: true\n"));
  EXPECT_THAT(resolved, HasSubstr("betas: [0.9, 0.95]\n"));
  // Every key of the sections has a line, but those that are absent by their nature.
  EXPECT_THAT(resolved, HasSubstr("rms_norm_eps: 1e-06\n"));
  for (const std::string& path : all_key_paths()) {
    const std::string key = path.substr(path.rfind('.') + 1);
    const bool is_absent = path == "model.from" || path == "model.layer_norm_epsilon" ||
                           path == "parallel.stages" || path == "checkpoint.every_minutes" ||
                           path.starts_with("phases.");
    EXPECT_TRUE(is_absent || resolved.find(key + ":") != std::string::npos) << path;
  }
}

TEST(Campaign, StrangeTextsSurviveTheResolvedFile) {
  Campaign c = parse(kBase);
  for (const char* text : {"no",
                           "null",
                           "007",
                           "a: b",
                           "#x",
                           "tab\there",
                           "quote\"back\\slash",
                           " leading",
                           "ümlaut",
                           "-",
                           "~"}) {
    c.run.directory = text;
    const Campaign again = parse_campaign(resolved_yaml(c), "base.yaml");
    EXPECT_EQ(again.run.directory, text);
  }
}

TEST(Campaign, DataPathsAreRelativeToTheFile) {
  const Campaign c = parse_campaign(kBase, "/some/folder/base.yaml");

  EXPECT_EQ(pretrain_of(c).data.at(0).path, "/some/folder/data.txt");
  EXPECT_EQ(c.run.directory, "runs/base");
}

TEST(Campaign, AllProblemsComeAtOnceByLine) {
  std::string text = kBase;
  text.replace(text.find("seed: 1"), 7, "seed: x");
  text.replace(text.find("steps: 10"), 9, "stepps: 10");
  text.replace(text.find("num_key_value_heads: 2"), 22, "num_key_value_heads: 3");
  const std::string message = refusal(text);

  const std::size_t seed = message.find("base.yaml:1: run.seed: expected");
  const std::size_t heads =
      message.find("base.yaml:7: model.num_key_value_heads: 3 key/value heads");
  const std::size_t steps =
      message.find("base.yaml:18: phases.pretrain.stepps: unknown key; did you mean steps?");
  ASSERT_NE(seed, std::string::npos) << message;
  ASSERT_NE(heads, std::string::npos) << message;
  ASSERT_NE(steps, std::string::npos) << message;
  EXPECT_LT(seed, heads);
  EXPECT_LT(heads, steps);
  EXPECT_THAT(message, HasSubstr("phases.pretrain.steps: missing"));
}

TEST(Campaign, WhatThisVersionLacksIsRefusedPlainly) {
  const auto with_run = [](const std::string& word) { return refusal(base_with("seed: 1", word)); };
  EXPECT_THAT(with_run("precision: fp8"), HasSubstr("this version runs fp32, bf16, and fp64"));
  EXPECT_THAT(with_run("profile: amx"), HasSubstr("portable only"));
  EXPECT_THAT(with_run("precision: fp64, device: cpu"), HasSubstr("reference only"));
  EXPECT_THAT(refusal(kBase + "tokenizer: {file: t.json}\n"), HasSubstr("byte tokens only"));
  EXPECT_THAT(refusal(kBase + "tokenizer: {bytes: false}\n"), HasSubstr("byte tokens only"));
  EXPECT_THAT(refusal(kBase + "metrics: {prometheus: {port: 1}}\n"),
              HasSubstr("metrics.jsonl only"));
  EXPECT_THAT(refusal(base_with("data: 1\n", "data: 1\n  context: 2\n")), HasSubstr("size 1 only"));
}

TEST(Campaign, ModelFromACheckpointTakesNoOtherKey) {
  std::string text = kBase;
  const std::size_t begin = text.find("model:");
  const std::size_t end = text.find("parallel:");
  text.replace(begin, end - begin, "model: {from: runs/a/checkpoints/latest}\n");
  const Campaign c = parse(text);

  EXPECT_EQ(c.model.from, std::filesystem::absolute("runs/a/checkpoints/latest"));
  EXPECT_TRUE(parse_campaign(resolved_yaml(c), "base.yaml") == c);
  text.replace(text.find("{from"), 5, "{hidden_size: 64, from");
  EXPECT_THAT(refusal(text), HasSubstr("model.hidden_size: model.from is given"));
}

TEST(Campaign, UnknownOperationNamesTheNearest) {
  EXPECT_THAT(
      refusal(kBase + "  - {name: g, kind: grow, operations: [{insert_layer: {after: 0}}]}\n"),
      AllOf(HasSubstr("base.yaml:24: phases.g.operations.0.insert_layer: unknown operation"),
            HasSubstr("did you mean insert_layers?")));
  EXPECT_THAT(refusal(kBase + "  - {name: g, kind: grow, operations: [{widen_mlp: {to: 512}}]}\n"),
              HasSubstr("this version has insert_gated_residual, insert_layers"));
}

TEST(Campaign, GrowTargetsMustExistWhenTheirTurnComes) {
  const auto grow = [](const std::string& operations) {
    return kBase + "  - {name: g, kind: grow, operations: [" + operations + "]}\n";
  };
  EXPECT_NO_THROW(parse(grow(
      "{insert_layers: {after: 1, count: 2}}, {insert_gated_residual: {after: layers.3.mlp}}")));
  EXPECT_NO_THROW(parse(grow("{insert_layers: {after: -1}}")));
  EXPECT_THAT(refusal(grow("{insert_gated_residual: {after: layers.2.mlp}}")),
              HasSubstr("no layer 2, expected 0 … 1"));
  EXPECT_THAT(refusal(grow("{insert_gated_residual: {after: layers.1.norm}}")),
              HasSubstr("expected embedding, layers.N.attention_norm, "));
  EXPECT_THAT(refusal(grow("{insert_gated_residual: {after: head}}")), HasSubstr("got head"));
  for (const char* module : {"embedding",
                             "layers.0.attention_norm",
                             "layers.1.attention",
                             "layers.0.mlp_norm",
                             "layers.1.mlp",
                             "layers.1",
                             "norm"}) {
    EXPECT_NO_THROW(parse(grow(std::string("{insert_gated_residual: {after: ") + module + "}}")));
  }
  EXPECT_THAT(refusal(grow("{insert_layers: {after: 2}}")),
              HasSubstr("expected -1 (the front) … 1"));
  EXPECT_THAT(refusal(grow("")), HasSubstr("at least one operation"));
}

// The inner and the meta half of a labelled batch are whole micro-batches of every data shard.
TEST(Campaign, ALearnedThresholdNeedsTwoHalves) {
  const auto mtssl = [](const std::string& more) {
    return base_with("vocab_size: 256", "vocab_size: auto") +
           "  - {name: m, kind: mtssl, steps: 1, labelled: a, validation: b, sequence_length: 8, " +
           more + "}\n";
  };
  EXPECT_THAT(refusal(mtssl("global_batch_size: 2")),
              HasSubstr("phases.m.global_batch_size: 2 labelled texts are one micro-batch a data "
                        "shard, expected at least 4"));
  EXPECT_NO_THROW(parse(mtssl("global_batch_size: 4")));
  EXPECT_NO_THROW(parse(mtssl("global_batch_size: 2, threshold: {kind: fixed}")));
}

TEST(Campaign, PhasesNeedTheirOwnNamesAndAStartBeforeThem) {
  const std::string again = "  - {name: pretrain, kind: evaluate, data: d, sequence_length: 8}\n";
  EXPECT_THAT(refusal(kBase + again), HasSubstr("also called pretrain"));
  const std::string later =
      "  - {name: e, kind: evaluate, data: d, sequence_length: 8, start_from: pretrian}\n";
  EXPECT_THAT(refusal(kBase + later), HasSubstr("did you mean pretrain?"));
  EXPECT_THAT(refusal(kBase + "  - {name: e, kind: evalute, data: d}\n"),
              HasSubstr("did you mean evaluate?"));
}

TEST(Campaign, LearningRateFitsItsPhase) {
  EXPECT_THAT(refusal(base_with("{peak: 1e-3}",
                                "{kind: wsd, peak: 1e-3, warmup_steps: 6, decay_steps: 5}")),
              HasSubstr("warmup_steps 6 + decay_steps 5 = 11, expected at most steps 10"));
  EXPECT_THAT(refusal(base_with("{peak: 1e-3}", "{kind: linear, peak: 1e-3, final: 1}")),
              HasSubstr("at most peak 0.001"));
  EXPECT_THAT(refusal(base_with("{peak: 1e-3}", "{peak: 0}")), HasSubstr("above 0"));
}

TEST(Campaign, SequencesFitThePositions) {
  EXPECT_THAT(refusal(base_with("sequence_length: 32", "sequence_length: 65")),
              HasSubstr("65, expected at most model.max_position_embeddings 64"));
}

const std::string kGpt2 = base_with(R"(  hidden_size: 64
  intermediate_size: 128
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
)",
                                    R"(  family: gpt2
  hidden_size: 64
  num_hidden_layers: 2
  num_attention_heads: 4
)");

TEST(Campaign, Gpt2HasItsOwnDefaults) {
  const Campaign c = parse(kGpt2);

  EXPECT_EQ(c.model.family, Family::gpt2);
  EXPECT_EQ(c.model.intermediate_size, 256);
  EXPECT_EQ(c.model.num_key_value_heads, 4);
  EXPECT_EQ(c.model.layer_norm_epsilon, 1e-5);
  EXPECT_TRUE(c.model.tie_word_embeddings);
  EXPECT_FALSE(parse(kBase).model.tie_word_embeddings);
  const std::string resolved = resolved_yaml(c);
  EXPECT_THAT(resolved,
              AllOf(HasSubstr("family: gpt2\n"), HasSubstr("tie_word_embeddings: true\n")));
  EXPECT_THAT(resolved, Not(HasSubstr("rope_theta")));
  EXPECT_TRUE(parse_campaign(resolved, "/elsewhere/config.yaml") == c) << resolved;
  const Campaign untied = parse(kGpt2, {"model.tie_word_embeddings=false"});
  EXPECT_FALSE(untied.model.tie_word_embeddings);
  EXPECT_TRUE(parse_campaign(resolved_yaml(untied), "/elsewhere/config.yaml") == untied);
}

TEST(Campaign, AFamilyRefusesTheKeysOfAnother) {
  const auto gpt2 = [](const std::string& key) { return refusal(kGpt2, {"model." + key}); };
  EXPECT_THAT(
      gpt2("rope_theta=1e4"),
      HasSubstr("model.rope_theta: family gpt2 does not have it: its positions are learned"));
  EXPECT_THAT(gpt2("rms_norm_eps=1e-5"), HasSubstr("write layer_norm_epsilon"));
  EXPECT_THAT(gpt2("num_key_value_heads=2"), HasSubstr("keys and values of its own"));
  EXPECT_THAT(gpt2("head_dim=8"), HasSubstr("hidden_size / num_attention_heads wide"));
  EXPECT_THAT(gpt2("n_embd=64"), HasSubstr("model.n_embd: write hidden_size"));
  EXPECT_THAT(refusal(kBase, {"model.layer_norm_epsilon=1e-5"}),
              HasSubstr("family llama does not have it: its norm is RMSNorm; write rms_norm_eps"));
  EXPECT_THAT(refusal(kBase, {"model.family=gpt3"}), AllOf(HasSubstr("llama"), HasSubstr("gpt2")));
  EXPECT_THAT(refusal(base_with("  intermediate_size: 128\n", "")),
              HasSubstr("model.intermediate_size: missing"));
  // Rotary positions turn pairs; learned ones don't mind an odd width.
  EXPECT_THAT(refusal(kBase, {"model.head_dim=15"}), HasSubstr("even width"));
  EXPECT_EQ(parse(kGpt2, {"model.hidden_size=60"}).model.head_size(), 15);
}

TEST(Campaign, MissingSectionsAndFilesAreNamed) {
  EXPECT_THAT(refusal("run: {name: x}\n"),
              AllOf(HasSubstr("model: missing"), HasSubstr("phases: missing")));
  EXPECT_THAT(refusal(""), HasSubstr("expected a map"));
  try {
    (void)load_campaign("no/such.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::usage);
    EXPECT_THAT(e.what(), HasSubstr("no/such.yaml"));
  }
}

}  // namespace
}  // namespace cambium::config
