// phases/registry.cpp — every kind of phase, one line each.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "phases/phase.hpp"

namespace cambium::phases {

RunPhase find_phase(std::string_view kind) {
  if (kind == "pretrain")
    return run_pretrain;
  if (kind == "grow")
    return run_grow;
  if (kind == "mtssl")
    return run_mtssl;
  if (kind == "evaluate")
    return run_evaluate;
  throw Error(Code::bug, "phases: kind " + std::string(kind) + " without an entry in the registry");
}

bool is_sharded(const config::Phase& phase, bool otherwise) {
  if (const auto* p = std::get_if<config::PretrainPhase>(&phase.settings)) {
    return p->optimizer.shard;
  }
  if (const auto* p = std::get_if<config::MtsslPhase>(&phase.settings)) {
    return p->optimizer.shard;
  }
  return otherwise;
}

}  // namespace cambium::phases
