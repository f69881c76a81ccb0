// phases/describe.cpp — what `validate` prints.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/resolve_parallel.hpp"
#include "data/check_data.hpp"
#include "growth/operation.hpp"
#include "growth/plans.hpp"
#include "model/inventory.hpp"
#include "phases/campaign.hpp"
#include "phases/checkpointing.hpp"
#include "phases/phase.hpp"
#include "phases/resume.hpp"

namespace cambium::phases {
namespace {

std::string stages_text(const model::StageMap& map) {
  std::string text;
  for (int s = 0; s < map.stages(); ++s) {
    text += fmt::format("{}{}", s > 0 ? " + " : "", map.layer_count(s));
  }
  return text;
}

std::string describe_growth(const config::GrowPhase& phase,
                            const model::Spec& before,
                            model::Spec& spec,
                            const config::ParallelConfig& p) {
  std::string text;
  for (const config::GrowOperation& o : phase.operations) {
    const auto operation = growth::make_operation(o);
    text += fmt::format(
        "    {} (claim {})\n", operation->describe(), growth::name_of(operation->claim()));
  }
  spec = growth::grow(spec, phase.operations, 0);
  text += fmt::format("    parameters {} -> {}, layers {} -> {}, layers by stage {} -> {}\n",
                      parameter_count(inventory(before)),
                      parameter_count(inventory(spec)),
                      before.layers.size(),
                      spec.layers.size(),
                      stages_text(plan_stages(before, p.pipeline, {}, p.virtual_stages)),
                      stages_text(plan_stages(spec, p.pipeline, {}, p.virtual_stages)));
  return text;
}

}  // namespace

std::string describe_campaign(const CampaignInput& input, int ranks) {
  config::Campaign campaign = config::load_campaign(input.config, input.overrides);
  std::string text;
  for (const std::string& line : data::check_data(campaign)) {
    text += line + "\n";
  }
  model::Spec spec;
  if (campaign.model.from) {
    spec = taken_over(open_model(*campaign.model.from));
    check_positions(campaign, spec);
    campaign.model.hidden_size = spec.hidden;
    campaign.model.num_attention_heads = spec.layers.front().heads;
    campaign.model.num_key_value_heads = spec.layers.front().kv_heads;
  } else {
    spec = model::make_spec(campaign.model, config::vocabulary_size(campaign));
  }
  const config::ParallelConfig p = config::resolve_parallel(campaign, ranks);
  text += fmt::format(
      "{}: {} ranks, tensor {} x pipeline {} x data {}; logical tensor {} x data {}; {} "
      "parameters; layers by "
      "stage {}\n",
      campaign.run.name,
      ranks,
      p.tensor,
      p.pipeline,
      p.data,
      p.logical.tensor,
      p.logical.data,
      parameter_count(inventory(spec)),
      stages_text(plan_stages(spec, p.pipeline, p.stages, p.virtual_stages)));
  if (campaign.run.precision == config::Precision::bf16) {
    text +=
        "precision bf16: activations, their gradients and products; masters, sums and checkpoints "
        "are fp32\n";
  }
  for (const config::Phase& phase : campaign.phases) {
    text += fmt::format("  {} ({}){}{}\n",
                        phase.name,
                        phase.kind(),
                        phase.steps() > 0 ? fmt::format(": {} updates", phase.steps()) : "",
                        phase.start_from ? " from the end of " + *phase.start_from : "");
    if (const auto* grow = std::get_if<config::GrowPhase>(&phase.settings)) {
      const model::Spec before = spec;
      text += describe_growth(*grow, before, spec, p);
    }
  }
  return text + "valid\n";
}

}  // namespace cambium::phases
