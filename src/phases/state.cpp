// SPDX-License-Identifier: Apache-2.0
#include "phases/state.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::phases {

using nlohmann::json;

namespace {

json contract_json(const Contract& c) {
  return {
      {"logical",
       {{"tensor", c.logical.tensor}, {"context", c.logical.context}, {"data", c.logical.data}}},
      {"micro_batch_size", c.micro_batch_size},
      {"precision", c.precision},
      {"profile", c.profile},
      {"reduction", c.reduction},
      {"seed", c.seed}};
}

Contract contract_from(const json& j) {
  const json& l = j.at("logical");
  return {{l.at("tensor"), l.at("context"), l.at("data")},
          j.at("micro_batch_size"),
          j.at("precision"),
          j.at("profile"),
          j.at("reduction"),
          j.at("seed")};
}

}  // namespace

json to_json(const State& s, const json& free) {
  return {{"contract", contract_json(s.contract)},
          {"spec", model::to_json(s.spec)},
          {"step", s.step},
          {"phase", s.phase},
          {"phase_begin", s.phase_begin},
          {"is_phase_begun", s.is_phase_begun},
          {"tokens", s.tokens},
          {"revision", s.revision},
          {"skipped_in_a_row", s.skipped_in_a_row},
          {"threshold",
           {{"tau", s.threshold.tau},
            {"mean_square", s.threshold.mean_square},
            {"mean", s.threshold.mean},
            {"updates", s.threshold.updates}}},
          {"lineage", s.lineage},
          {"labels", s.labels},
          {"model", s.model},
          {"phases", s.phases},
          {"free", free}};
}

State state_from_json(const json& j) {
  try {
    State s;
    s.contract = contract_from(j.at("contract"));
    s.spec = model::spec_from_json(j.at("spec"));
    s.step = j.at("step");
    s.phase = j.at("phase");
    s.phase_begin = j.at("phase_begin");
    s.is_phase_begun = j.at("is_phase_begun");
    s.tokens = j.at("tokens");
    s.revision = j.at("revision");
    s.skipped_in_a_row = j.at("skipped_in_a_row");
    const json& t = j.at("threshold");
    s.threshold = {t.at("tau"), t.at("mean_square"), t.at("mean"), t.at("updates")};
    s.lineage = j.at("lineage");
    s.labels = j.at("labels").get<std::vector<std::string>>();
    s.model = j.at("model");
    s.phases = j.at("phases").get<std::vector<std::string>>();
    return s;
  } catch (const json::exception& e) {
    throw Error(Code::bad_input, std::string("checkpoint: state: ") + e.what());
  }
}

void check_contract(const Contract& recorded,
                    const Contract& wanted,
                    const std::string& checkpoint) {
  std::string problems;
  const auto compare = [&](const char* key, const auto& a, const auto& b) {
    if (a != b) {
      problems += fmt::format("{}{}: the checkpoint has {}, the config has {}",
                              problems.empty() ? "" : "; ",
                              key,
                              a,
                              b);
    }
  };
  compare("parallel.logical.tensor", recorded.logical.tensor, wanted.logical.tensor);
  compare("parallel.logical.data", recorded.logical.data, wanted.logical.data);
  compare("parallel.micro_batch_size", recorded.micro_batch_size, wanted.micro_batch_size);
  compare("parallel.reduction", recorded.reduction, wanted.reduction);
  compare("run.precision", recorded.precision, wanted.precision);
  compare("run.profile", recorded.profile, wanted.profile);
  compare("run.seed", recorded.seed, wanted.seed);
  if (!problems.empty()) {
    throw Error(Code::usage,
                checkpoint + ": these keys decide the numbers and may not change over a restart: " +
                    problems + "; put the old values back, or start another run.directory");
  }
}

}  // namespace cambium::phases
