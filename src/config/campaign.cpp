// SPDX-License-Identifier: Apache-2.0
#include "config/campaign.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "config/check_campaign.hpp"
#include "config/families.hpp"
#include "config/nearest.hpp"
#include "config/read_fields.hpp"

namespace cambium::config {
namespace {

// What an absent key takes from another.
void fill_dependent_defaults(Campaign& c) {
  if (c.run.directory.empty()) {
    c.run.directory = "runs/" + c.run.name;
  }
  if (c.model.intermediate_size == 0) {
    c.model.intermediate_size = traits_of(c.model.family).ffn_multiple * c.model.hidden_size;
  }
  if (c.model.num_key_value_heads == 0) {
    c.model.num_key_value_heads = c.model.num_attention_heads;
  }
}

// A checkpoint gives the structure: other keys beside `from` would be lies.
void refuse_keys_beside_from(Reader& model) {
  for (const std::string& key : model.keys()) {
    if (key != "from") {
      Reader node = model.at(key);
      node.add_problem("model.from is given and its checkpoint has this value; remove the key");
    }
  }
}

void read_sections(Reader& root, const std::filesystem::path& folder, Campaign& c) {
  for (const char* section : {"run", "model", "phases"}) {
    Reader node = root.at(section);
    if (!node.is_present()) {
      node.add_problem("missing");
    }
  }
  FieldReader sections(root, folder);
  Reader model = root.at("model");
  const bool from_checkpoint = model.is_map() && model.at("from").is_present();
  if (from_checkpoint) {
    refuse_keys_beside_from(model);
  }
  campaign_sections(sections, c);
  Reader phases = root.at("phases");
  if (phases.is_present()) {
    c.phases = read_phases(phases, folder);
  }
  root.refuse_unknown(all_key_paths());
}

}  // namespace

std::string_view Phase::kind() const {
  constexpr std::string_view kKinds[] = {"pretrain", "grow", "mtssl", "evaluate"};
  return kKinds[settings.index()];
}

dim_t Phase::steps() const {
  if (const auto* pretrain = std::get_if<PretrainPhase>(&settings)) {
    return pretrain->steps;
  }
  const auto* mtssl = std::get_if<MtsslPhase>(&settings);
  return mtssl != nullptr ? mtssl->steps : 0;
}

std::string_view operation_name(const GrowOperation& operation) {
  return std::holds_alternative<InsertLayers>(operation) ? "insert_layers"
                                                         : "insert_gated_residual";
}

std::string Places::of(std::string_view path) const {
  for (std::string_view above = path;;) {
    const auto place = by_path.find(above);
    if (place != by_path.end()) {
      return place->second;
    }
    const std::size_t dot = above.rfind('.');
    if (dot == std::string_view::npos) {
      return file;
    }
    above = above.substr(0, dot);
  }
}

dim_t global_batch_size(const Phase& phase) {
  if (const auto* pretrain = std::get_if<PretrainPhase>(&phase.settings)) {
    return pretrain->global_batch_size;
  }
  if (const auto* mtssl = std::get_if<MtsslPhase>(&phase.settings)) {
    return mtssl->global_batch_size;
  }
  const auto* evaluate = std::get_if<EvaluatePhase>(&phase.settings);
  return evaluate != nullptr ? evaluate->global_batch_size : 0;
}

dim_t sequence_length(const Phase& phase) {
  return std::visit(
      [](const auto& settings) -> dim_t {
        if constexpr (requires { settings.sequence_length; }) {
          return settings.sequence_length;
        } else {
          return 0;
        }
      },
      phase.settings);
}

std::string phase_path(const Campaign& campaign, std::size_t index) {
  const std::string& name = campaign.phases[index].name;
  const auto same = [&](const Phase& phase) { return phase.name == name; };
  const auto count = std::count_if(campaign.phases.begin(), campaign.phases.end(), same);
  return fmt::format("phases.{}", name.empty() || count > 1 ? std::to_string(index) : name);
}

std::vector<dim_t> divisors(dim_t n) {
  std::vector<dim_t> out;
  for (dim_t d = 1; d <= n; ++d) {
    if (n % d == 0) {
      out.push_back(d);
    }
  }
  return out;
}

std::string list_of(const std::vector<dim_t>& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

void throw_problems(const Campaign& campaign, const Problems& problems) {
  if (problems.empty()) {
    return;
  }
  std::string text;
  for (const Problem& problem : problems) {
    text += fmt::format("{}{}: {}: {}",
                        text.empty() ? "" : "\n",
                        campaign.places.of(problem.path),
                        problem.path,
                        problem.text);
  }
  throw Error(Code::usage, text);
}

Campaign parse_campaign(std::string_view text,
                        const std::filesystem::path& file,
                        std::span<const std::string> overrides) {
  Reader root = Reader::parse(text, file, overrides);
  Campaign campaign;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (root.is_map()) {
    read_sections(root, folder, campaign);
    fill_dependent_defaults(campaign);
    campaign.places = {.file = file.string(), .by_path = root.places()};
    Problems problems;
    check_model(campaign, problems);
    check_meshes(campaign, problems);
    check_phases(campaign, problems);
    for (const Problem& problem : problems) {
      root.add_problem_at(problem.path, problem.text);
    }
  } else {
    root.add_problem("expected a map with the keys run, model, phases; the file has none");
  }
  root.finish();
  return campaign;
}

Campaign load_campaign(const std::filesystem::path& file, std::span<const std::string> overrides) {
  std::string text;
  try {
    text = read_file(file);
  } catch (const Error& e) {
    throw Error(Code::usage, fmt::format("config: {}", e.what()));
  }
  return parse_campaign(text, file, overrides);
}

dim_t vocabulary_size(const Campaign& campaign) {
  if (campaign.model.vocab_size) {
    return *campaign.model.vocab_size;
  }
  const bool needs_mask =
      std::any_of(campaign.phases.begin(), campaign.phases.end(), [](const Phase& p) {
        return std::holds_alternative<MtsslPhase>(p.settings);
      });
  return needs_mask ? kPadId + 1 : kByteIds;
}

std::size_t phase_index(const Campaign& campaign, std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < campaign.phases.size(); ++i) {
    if (campaign.phases[i].name == name) {
      return i;
    }
    names.push_back(campaign.phases[i].name);
  }
  const std::optional<std::string> near = nearest_name(name, names);
  throw Error(
      Code::usage,
      fmt::format("{}: no phase {}{}",
                  campaign.places.file,
                  name,
                  near ? "; did you mean " + *near + "?" : "; expected one of " + join(names)));
}

}  // namespace cambium::config
