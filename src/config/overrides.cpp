// SPDX-License-Identifier: Apache-2.0
#include "config/overrides.hpp"

#include <fmt/format.h>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "config/nearest.hpp"
#include "config/scalars.hpp"

namespace cambium::config {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> steps;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', begin)) {
    steps.emplace_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  steps.emplace_back(path.substr(begin));
  return steps;
}

void set_place(Node& node, const std::string& place) {
  node.place = place;
  node.line = std::numeric_limits<int>::max();  // behind the file's own problems
  for (Node& item : node.items) {
    set_place(item, place);
  }
  for (Entry& entry : node.entries) {
    entry.place = place;
    entry.line = node.line;
    set_place(entry.value, place);
  }
}

// The element of a list that a step names, or nullptr.
Node* item_of(Node& list, const std::string& step) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (list.name_of_item(i) == step) {
      return &list.items[i];
    }
  }
  const std::optional<std::uint64_t> index = parse_unsigned(step);
  return index && *index < list.items.size() ? &list.items[*index] : nullptr;
}

std::string no_such_item(const Node& list, const std::string& step) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    names.push_back(list.name_of_item(i));
  }
  const std::optional<std::string> near = nearest_name(step, names);
  return fmt::format("no element {}, expected 0 … {}{}{}",
                     step,
                     static_cast<std::int64_t>(list.items.size()) - 1,
                     names.empty() ? "" : " or one of " + join(names),
                     near ? "; did you mean " + *near + "?" : "");
}

}  // namespace

std::optional<OverrideProblem> apply_override(Node& root, std::string_view assignment) {
  const std::string place = fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  const std::string path(assignment.substr(0, equals));
  const auto problem = [&](std::string text) {
    return OverrideProblem{.place = place, .path = path, .text = std::move(text)};
  };
  if (equals == std::string_view::npos || path.empty()) {
    return problem("expected key.path=value");
  }
  Node value;
  try {
    value = parse_document(assignment.substr(equals + 1), place);
  } catch (const Error& e) {
    return OverrideProblem{.place = place, .path = path, .text = e.what()};
  }
  set_place(value, place);
  Node* at = &root;
  for (const std::string& step : split(path)) {
    if (step.empty()) {
      return problem("an empty step in the path, expected key.path=value");
    }
    if (at->kind == Node::Kind::list) {
      Node* item = item_of(*at, step);
      if (item == nullptr) {
        return problem(no_such_item(*at, step));
      }
      at = item;
      continue;
    }
    if (at->kind == Node::Kind::scalar) {
      return problem(
          fmt::format("{} has no keys: above it stands {} at {}", step, at->describe(), at->place));
    }
    at->kind = Node::Kind::map;
    Node* next = at->find(step);
    if (next == nullptr) {
      at->entries.push_back(
          {.key = step, .line = std::numeric_limits<int>::max(), .place = place, .value = {}});
      next = &at->entries.back().value;
      next->place = place;
      next->line = std::numeric_limits<int>::max();
    }
    at = next;
  }
  *at = std::move(value);
  return std::nullopt;
}

}  // namespace cambium::config
