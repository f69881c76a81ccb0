// phases/state.hpp — where a campaign stands: all that the next step depends on beside parameters
// and slots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/topology.hpp"
#include "config/campaign.hpp"
#include "model/spec.hpp"

namespace cambium::phases {

// What decides numbers; kept over restarts (design.md §1).
struct Contract {
  comm::LogicalMesh logical;
  dim_t micro_batch_size = 1;
  std::string precision = "fp32";
  std::string profile = "portable";
  std::string reduction = "exact";
  std::uint64_t seed = 0;

  bool operator==(const Contract&) const = default;
};

// The state of a learned threshold (methods.md §2), fp64, equal on all ranks.
struct Threshold {
  double tau = 0;          // logit
  double mean_square = 0;  // running mean of G^2
  double mean = 0;         // running mean of G: is there a direction at all?
  std::int64_t updates = 0;

  bool operator==(const Threshold&) const = default;
};

struct State {
  Contract contract;
  model::Spec spec;
  dim_t step = 0;               // updates made so far
  std::size_t phase = 0;        // index of the phase in work
  dim_t phase_begin = 0;        // step at its start
  bool is_phase_begun = false;  // its entry actions (start_from, classifier) are done
  std::int64_t tokens = 0;
  dim_t revision = 0;  // growth commits so far
  dim_t skipped_in_a_row = 0;
  Threshold threshold;
  nlohmann::json lineage = nlohmann::json::array();  // growth steps
  std::vector<std::string> labels;                   // of the last mtssl phase
  std::string model;  // resolved text of the model section that the campaign began with
  std::vector<std::string>
      phases;  // resolved text of every phase begun so far, for the check at restart
};

// `free` becomes state["free"]: what may differ between two equal runs.
[[nodiscard]] nlohmann::json to_json(const State& state, const nlohmann::json& free);
// Throws Error(bad_input).
[[nodiscard]] State state_from_json(const nlohmann::json& json);

// Throws Error(usage) listing every key of the contract in which the config differs from the
// checkpoint, with both values.
void check_contract(const Contract& recorded,
                    const Contract& wanted,
                    const std::string& checkpoint);

}  // namespace cambium::phases
