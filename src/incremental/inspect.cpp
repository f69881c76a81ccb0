// incremental/inspect.cpp — the graph's own laws, and a picture of it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"
#include "incremental/core.hpp"

namespace cambium::incremental {
namespace {

std::string_view state_of(const Record& record, bool stale) {
  if (!record.valid) {
    return "invalid";
  }
  if (!record.necessary) {
    return "unnecessary";
  }
  return stale ? "stale" : "fresh";
}

std::string_view colour_of(std::string_view state) {
  if (state == "invalid") {
    return "salmon";
  }
  if (state == "stale") {
    return "gold";
  }
  return state == "fresh" ? "palegreen" : "lightgrey";
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

dim_t edges_between(const std::vector<std::int32_t>& list, std::int32_t node) {
  return std::ranges::count(list, node);
}

}  // namespace

void Core::check_invariants() const {
  std::vector<bool> reachable(nodes_.size());
  std::vector<std::int32_t> work;
  for (std::int32_t node = 0; node < size(); ++node) {
    if (at(node).alive && at(node).valid && at(node).observers > 0) {
      work.push_back(node);
    }
  }
  while (!work.empty()) {
    const std::int32_t node = work.back();
    work.pop_back();
    if (!reachable[static_cast<std::size_t>(node)] && at(node).valid) {
      reachable[static_cast<std::size_t>(node)] = true;
      work.insert(work.end(), at(node).children.begin(), at(node).children.end());
    }
  }
  Counters seen;
  dim_t queued = 0;
  for (std::int32_t node = 0; node < size(); ++node) {
    const Record& record = at(node);
    if (!record.alive) {
      continue;
    }
    CAMBIUM_CHECK(record.necessary == reachable[static_cast<std::size_t>(node)], record.label);
    check_record(node);
    seen.nodes += record.valid ? 1 : 0;
    seen.necessary += record.necessary ? 1 : 0;
    queued += record.heap_position >= 0 ? 1 : 0;
  }
  for (const auto& bucket : heap_) {
    queued -= static_cast<dim_t>(bucket.size());
  }
  CAMBIUM_CHECK(queued == 0, "the heap and the nodes' places in it");
  CAMBIUM_CHECK(seen.nodes == counters_.nodes, "count of nodes");
  CAMBIUM_CHECK(seen.necessary == counters_.necessary, "count of necessary nodes");
  for (const auto& [key, node] : memo_) {
    CAMBIUM_CHECK(at(node).alive, "memo of " + key.first);
  }
}

void Core::check_record(std::int32_t node) const {
  const Record& record = at(node);
  const bool in_heap = record.heap_position >= 0;
  if (in_heap) {
    const auto height = static_cast<std::size_t>(record.height);
    const auto place = static_cast<std::size_t>(record.heap_position);
    CAMBIUM_CHECK(height < heap_.size() && height >= lowest_ && place < heap_[height].size() &&
                      heap_[height][place] == node,
                  record.label + ": place in the heap");
  }
  // A bind that lost what it chose is queued without a changed input.
  const bool queued_for_choice = record.kind == NodeKind::bind_main && in_heap;
  CAMBIUM_CHECK(in_heap == (record.necessary && is_stale(record)) || queued_for_choice,
                record.label);
  CAMBIUM_CHECK(record.necessary || record.parents.empty(), record.label + ": dependants");
  for (const std::int32_t parent : record.parents) {
    const Record& above = at(parent);
    CAMBIUM_CHECK(above.alive && above.valid && above.necessary, record.label + ": dependant");
    CAMBIUM_CHECK(above.height > record.height, record.label + ": height");
    CAMBIUM_CHECK(edges_between(record.parents, parent) == edges_between(above.children, node),
                  record.label + ": edges");
  }
  for (const std::int32_t child : record.children) {
    CAMBIUM_CHECK(at(child).alive, record.label + ": input is gone");
    if (record.necessary && at(child).valid) {
      CAMBIUM_CHECK(edges_between(at(child).parents, node) == edges_between(record.children, child),
                    record.label + ": edges");
    }
  }
  for (const std::int32_t inner : record.scope_nodes) {
    CAMBIUM_CHECK(at(inner).alive && at(inner).valid && at(inner).scope == node,
                  record.label + ": scope");
    CAMBIUM_CHECK(!at(inner).necessary || at(inner).height > record.height,
                  record.label + ": scope height");
  }
}

std::string Core::dot() const {
  std::string text = "digraph incremental {\n  rankdir=BT; node [shape=box, style=filled];\n";
  for (std::int32_t node = 0; node < size(); ++node) {
    const Record& record = at(node);
    if (!record.alive) {
      continue;
    }
    const std::string_view state = state_of(record, is_stale(record));
    text += fmt::format("  n{} [label=\"{}\\nheight {}{}, {}\", fillcolor={}{}];\n",
                        node,
                        escape(record.label),
                        record.height,
                        record.observers > 0 ? fmt::format(", observed {}", record.observers) : "",
                        state,
                        colour_of(state),
                        record.kind == NodeKind::variable ? ", shape=ellipse" : "");
    for (const std::int32_t child : record.children) {
      text += fmt::format("  n{} -> n{};\n", child, node);
    }
    if (record.scope >= 0) {
      text += fmt::format("  n{} -> n{} [style=dotted, arrowhead=none];\n", record.scope, node);
    }
  }
  return text + "}\n";
}

}  // namespace cambium::incremental
