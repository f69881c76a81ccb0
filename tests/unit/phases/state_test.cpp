// unit/phases/state_test.cpp — what a checkpoint keeps of a campaign, and which keys a restart may
// not change.
// SPDX-License-Identifier: Apache-2.0
#include "phases/state.hpp"

#include <functional>
#include <gtest/gtest.h>

#include "support/throws.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using phases::Contract;
using phases::State;
using testing::expect_error;

Contract contract() {
  return {.logical = {.tensor = 4, .data = 6},
          .micro_batch_size = 3,
          .precision = "fp64",
          .profile = "portable",
          .reduction = "exact",
          .seed = 0xFFFFFFFFFFFFFFFFULL};
}

// Every field at a value that is no default.
State full_state() {
  State s;
  s.contract = contract();
  s.spec = testing::with_blocks(testing::tiny_spec(), {"layers.0.mlp"});
  s.step = 123456789012;
  s.phase = 3;
  s.phase_begin = 77;
  s.is_phase_begun = true;
  s.tokens = 9876543210987;
  s.revision = 2;
  s.skipped_in_a_row = 1;
  s.threshold = {.tau = 0.1 + 0.2, .mean_square = 1.0 / 3, .mean = -1e-300, .updates = 9};
  s.lineage = {{{"step", 5}, {"operations", {"insert_layers"}}}};
  s.labels = {"card_arrival", "zażółć"};
  s.model = "model:\n  family: llama";
  s.phases = {"name: a\n", "name: b\n"};
  return s;
}

TEST(State, ComesBackFromJson) {
  const State s = full_state();
  const nlohmann::json free = {{"stages", {0, 2}}};
  const nlohmann::json json = nlohmann::json::parse(phases::to_json(s, free).dump());
  const State back = phases::state_from_json(json);
  EXPECT_EQ(back.contract, s.contract);
  EXPECT_EQ(back.spec, s.spec);
  EXPECT_EQ(back.step, s.step);
  EXPECT_EQ(back.phase, s.phase);
  EXPECT_EQ(back.phase_begin, s.phase_begin);
  EXPECT_EQ(back.is_phase_begun, s.is_phase_begun);
  EXPECT_EQ(back.tokens, s.tokens);
  EXPECT_EQ(back.revision, s.revision);
  EXPECT_EQ(back.skipped_in_a_row, s.skipped_in_a_row);
  EXPECT_EQ(back.threshold, s.threshold);  // to the last bit
  EXPECT_EQ(back.lineage, s.lineage);
  EXPECT_EQ(back.labels, s.labels);
  EXPECT_EQ(back.model, s.model);
  EXPECT_EQ(back.phases, s.phases);
  EXPECT_EQ(json.at("free"), free);
  EXPECT_EQ(phases::to_json(back, free), phases::to_json(s, free));  // nothing was left out above
}

TEST(State, EveryFieldIsNeeded) {
  const nlohmann::json json = phases::to_json(full_state(), {});
  for (const auto& [key, value] : json.items()) {
    if (key == "free") {
      continue;
    }
    nlohmann::json without = json;
    without.erase(key);
    expect_error(Code::bad_input, {"checkpoint: state", key}, [&] {
      (void)phases::state_from_json(without);
    });
  }
}

TEST(Contract, TheSameMayGoOn) {
  phases::check_contract(contract(), contract(), "checkpoints/step-00000007");
}

TEST(Contract, ARefusalListsEveryKeyWithBothValues) {
  const Contract other{.logical = {.tensor = 2, .data = 1},
                       .micro_batch_size = 8,
                       .precision = "fp32",
                       .profile = "amx",
                       .reduction = "fast",
                       .seed = 5};
  expect_error(Code::usage,
               {"checkpoints/step-00000007",
                "parallel.logical.tensor: the checkpoint has 4, the config has 2",
                "parallel.logical.data: the checkpoint has 6, the config has 1",
                "parallel.micro_batch_size: the checkpoint has 3, the config has 8",
                "parallel.reduction: the checkpoint has exact, the config has fast",
                "run.precision: the checkpoint has fp64, the config has fp32",
                "run.profile: the checkpoint has portable, the config has amx",
                "run.seed: the checkpoint has 18446744073709551615, the config has 5"},
               [&] { phases::check_contract(contract(), other, "checkpoints/step-00000007"); });
}

TEST(Contract, EachKeyAloneIsRefused) {
  const std::vector<std::pair<std::string, std::function<void(Contract&)>>> changes = {
      {"parallel.logical.tensor", [](Contract& c) { c.logical.tensor = 1; }},
      {"parallel.logical.data", [](Contract& c) { c.logical.data = 1; }},
      {"parallel.micro_batch_size", [](Contract& c) { c.micro_batch_size = 1; }},
      {"parallel.reduction", [](Contract& c) { c.reduction = "fast"; }},
      {"run.precision", [](Contract& c) { c.precision = "fp32"; }},
      {"run.profile", [](Contract& c) { c.profile = "amx"; }},
      {"run.seed", [](Contract& c) { c.seed = 1; }}};
  for (const auto& [key, change] : changes) {
    Contract wanted = contract();
    change(wanted);
    for (const auto& [other, unused] : changes) {
      try {
        phases::check_contract(contract(), wanted, "c");
        ADD_FAILURE() << key << " was not refused";
      } catch (const Error& e) {
        EXPECT_EQ(std::string(e.what()).find(other) != std::string::npos, other == key)
            << key << ": " << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace cambium
