// SPDX-License-Identifier: Apache-2.0
#include "phases/free_keys.hpp"

#include "config/words.hpp"

namespace cambium::phases {

using nlohmann::json;

json free_keys(const Session& session) {
  const config::ParallelConfig& p = session.parallel;
  const config::RunConfig& run = session.campaign.run;
  return {{"parallel.tensor", p.tensor},
          {"parallel.pipeline", p.pipeline},
          {"parallel.context", p.context},
          {"parallel.data", p.data},
          {"parallel.expert", p.expert},
          {"parallel.schedule", config::word_of(p.schedule)},
          {"parallel.virtual_stages", p.virtual_stages},
          {"parallel.stages", p.stages},
          {"parallel.sequence_parallel", p.sequence_parallel},
          {"parallel.recompute", config::word_of(p.recompute)},
          {"parallel.overlap", p.overlap},
          {"optimizer.shard", session.store->shape().is_sharded},
          {"run.device", config::word_of(run.device)},
          {"run.isa", config::word_of(run.isa)},
          {"run.threads", run.threads}};
}

json changed_keys(const json& from, const json& to) {
  json changed = json::array();
  for (const auto& [key, value] : from.items()) {
    if (to.contains(key) && to.at(key) != value) {
      changed.push_back({{"key", key}, {"from", value}, {"to", to.at(key)}});
    }
  }
  return changed;
}

}  // namespace cambium::phases
