// tests/unit/config/base_campaign.hpp — the smallest valid run of the failure list, with places to
// lay changes over it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "config/campaign.hpp"

namespace cambium::config::testing {

inline const std::string kBase = R"(run: {name: base, seed: 1}
model:
  hidden_size: 64
  intermediate_size: 128
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  max_position_embeddings: 64
  vocab_size: 256
parallel:
  data: 1
  micro_batch_size: 2
  logical: {tensor: 1, data: 1}
checkpoint: {every_steps: 5}
phases:
  - name: pretrain
    kind: pretrain
    steps: 10
    global_batch_size: 4
    sequence_length: 32
    data: data.txt
    optimizer: {eps: 1e-8}
    learning_rate: {peak: 1e-3}
)";

// The base with the first occurrence of `what` replaced.
inline std::string base_with(const std::string& what, const std::string& by) {
  std::string text = kBase;
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

inline Campaign parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_campaign(text, "base.yaml", overrides);
}

inline const PretrainPhase& pretrain_of(const Campaign& campaign) {
  return std::get<PretrainPhase>(campaign.phases.at(0).settings);
}

// The message of the refusal; a test failure when there is none or its code is another.
inline std::string refusal(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::usage);
    return e.what();
  }
  ADD_FAILURE() << "accepted:\n" << text;
  return {};
}

}  // namespace cambium::config::testing
