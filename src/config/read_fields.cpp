// SPDX-License-Identifier: Apache-2.0
#include "config/read_fields.hpp"

#include <fmt/format.h>
#include <limits>

#include "config/nearest.hpp"

namespace cambium::config {
namespace {

template <typename T>
GrowOperation read_operation(Reader& node, const std::filesystem::path& folder) {
  T operation;
  FieldReader(node, folder).read_section(node, operation);
  return operation;
}

}  // namespace

void FieldReader::read(Reader& node, std::string& member, const Rule& /*rule*/) {
  assign(member, node.read_text());
}

void FieldReader::read(Reader& node, bool& member, const Rule& /*rule*/) {
  assign(member, node.read_flag());
}

void FieldReader::read(Reader& node, int& member, const Rule& rule) {
  Bounds bounds = rule.bounds;
  bounds.high = std::min(bounds.high, static_cast<double>(std::numeric_limits<int>::max()));
  if (const std::optional<std::int64_t> value = node.read_count(bounds)) {
    member = static_cast<int>(*value);
  }
}

void FieldReader::read(Reader& node, dim_t& member, const Rule& rule) {
  assign(member, node.read_count(rule.bounds));
}

void FieldReader::read(Reader& node, std::uint64_t& member, const Rule& /*rule*/) {
  assign(member, node.read_seed());
}

void FieldReader::read(Reader& node, double& member, const Rule& rule) {
  assign(member, rule.seconds ? node.read_seconds(rule.bounds) : node.read_number(rule.bounds));
}

void FieldReader::read(Reader& node, Betas& member, const Rule& rule) {
  std::vector<Reader> items = node.elements();
  if (!node.is_list()) {
    return;
  }
  if (items.size() != 2) {
    node.add_problem(fmt::format("expected a list of two numbers, got {}", items.size()));
    return;
  }
  assign(member.first, items[0].read_number(rule.bounds));
  assign(member.second, items[1].read_number(rule.bounds));
}

void FieldReader::read(Reader& node, std::vector<dim_t>& member, const Rule& rule) {
  member.clear();
  for (Reader& item : node.elements()) {
    assign(member.emplace_back(), item.read_count(rule.bounds));
  }
}

void FieldReader::read(Reader& node, std::vector<std::string>& member, const Rule& /*rule*/) {
  member.clear();
  for (Reader& item : node.elements()) {
    assign(member.emplace_back(), item.read_text());
  }
}

void FieldReader::read(Reader& node, std::filesystem::path& member, const Rule& /*rule*/) const {
  if (const std::optional<std::string> text = node.read_text()) {
    member = (folder_ / *text).lexically_normal();
  }
}

void FieldReader::read(Reader& node, std::vector<DataSource>& member, const Rule& rule) const {
  member.clear();
  if (!node.is_list()) {
    read(node, member.emplace_back().path, rule);
    return;
  }
  for (Reader& item : node.elements()) {
    DataSource& source = member.emplace_back();
    if (item.is_map()) {
      FieldReader(item, folder_).read_section(item, source);
    } else {
      read(item, source.path, rule);
    }
  }
  if (member.empty()) {
    node.add_problem("expected at least one path, got an empty list");
  }
}

void FieldReader::read_section(Reader& node, ValidationConfig& member) {
  if (!node.is_map()) {
    read(node, member.path, {});
    return;
  }
  FieldReader below(node, folder_);
  fields(below, member);
  node.refuse_unknown(all_key_paths());
}

void FieldReader::read(Reader& node,
                       std::vector<GrowOperation>& member,
                       const Rule& /*rule*/) const {
  member.clear();
  for (Reader& item : node.elements()) {
    const std::vector<std::string> keys = item.keys();
    if (!item.is_map() || keys.size() != 1) {
      item.add_problem(fmt::format(
          "expected a map with one key, the operation's name, got {}",
          item.is_map() ? fmt::format("{} keys", keys.size()) : std::string("something else")));
      continue;
    }
    const std::vector<std::string> names{"insert_gated_residual", "insert_layers"};
    Reader options = item.at(keys[0]);
    if (keys[0] == names[0]) {
      member.push_back(read_operation<InsertGatedResidual>(options, folder_));
    } else if (keys[0] == names[1]) {
      member.push_back(read_operation<InsertLayers>(options, folder_));
    } else {
      const std::optional<std::string> near = nearest_name(keys[0], names);
      options.add_problem(fmt::format("unknown operation{}; this version has {}",
                                      near ? "; did you mean " + *near + "?" : "",
                                      join(names)));
    }
  }
  if (node.is_list() && member.empty() && !node.has_problems()) {
    node.add_problem("expected at least one operation, got an empty list");
  }
}

namespace {

// The settings of a phase by its kind; keys of every kind but the common ones.
template <typename T>
void read_settings(Reader& node, const std::filesystem::path& folder, Phase& phase) {
  FieldReader below(node, folder);
  fields(below, phase.settings.emplace<T>());
}

bool read_kind(Reader& node, const std::filesystem::path& folder, Phase& phase) {
  const std::vector<std::string> kinds{"pretrain", "grow", "mtssl", "evaluate"};
  Reader kind = node.at("kind");
  if (!kind.is_written()) {
    kind.add_problem(fmt::format("missing; expected one of {}", join(kinds)));
    return false;
  }
  const std::optional<std::size_t> which = kind.read_word(kinds);
  if (!which) {
    return false;
  }
  switch (*which) {
    case 0:
      read_settings<PretrainPhase>(node, folder, phase);
      break;
    case 1:
      read_settings<GrowPhase>(node, folder, phase);
      break;
    case 2:
      read_settings<MtsslPhase>(node, folder, phase);
      if (!node.at("validation").is_present()) {
        node.at("validation").add_problem("missing; held-out texts with labels are needed");
      }
      break;
    default:
      read_settings<EvaluatePhase>(node, folder, phase);
  }
  return true;
}

}  // namespace

std::vector<Phase> read_phases(Reader& list, const std::filesystem::path& folder) {
  std::vector<Phase> phases;
  for (Reader& node : list.elements()) {
    if (!node.expect_map()) {
      continue;
    }
    Phase& phase = phases.emplace_back();
    FieldReader common(node, folder);
    common.value("name", phase.name, {.required = true});
    common.value("start_from", phase.start_from, {});
    if (read_kind(node, folder, phase)) {
      node.refuse_unknown(all_key_paths());
    }
  }
  if (list.is_list() && phases.empty() && !list.has_problems()) {
    list.add_problem("expected at least one phase, got an empty list");
  }
  return phases;
}

}  // namespace cambium::config
