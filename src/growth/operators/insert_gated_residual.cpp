// SPDX-License-Identifier: Apache-2.0
#include "growth/operators/insert_gated_residual.hpp"

#include <fmt/format.h>

namespace cambium::growth {

std::string InsertGatedResidual::describe() const {
  return fmt::format("insert_gated_residual: a gated block behind {} ({} gate)",
                     config_.after,
                     config_.gate == config::GateKind::vector ? "vector" : "scalar");
}

void InsertGatedResidual::apply(model::Spec& spec, std::int64_t step) const {
  std::vector<model::InsertedBlock>& blocks = model::blocks_after(spec, config_.after);
  model::InsertedBlock block;
  block.uid = spec.take_uid();
  block.width = config_.width > 0 ? config_.width : spec.hidden;
  block.gate =
      config_.gate == config::GateKind::vector ? model::GateKind::vector : model::GateKind::scalar;
  block.norm_eps = spec.norm_eps;
  block.norm_width = spec.norm_width;
  block.init_std = spec.init_std;
  block.birth = {step, config_.warmup_steps, config_.learning_rate_multiplier};
  blocks.push_back(block);
}

}  // namespace cambium::growth
