// SPDX-License-Identifier: Apache-2.0
#include "incremental/core.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::incremental {

const Record& Core::at(std::int32_t node) const {
  return nodes_[static_cast<std::size_t>(node)];
}

// The one way to change a record: the first change in a transaction keeps what was there.
Record& Core::touch(std::int32_t node) {
  Record& record = nodes_[static_cast<std::size_t>(node)];
  if (transaction_ && node < transaction_->size) {
    transaction_->before.try_emplace(node, record);
  }
  return record;
}

void Core::refuse_inside_a_function(const char* what) const {
  if (in_function_) {
    throw Error(Code::bug, fmt::format("incremental: {} inside the function of a node", what));
  }
}

std::int32_t Core::add_record(NodeKind kind,
                              std::string label,
                              std::vector<std::int32_t> children) {
  if (!in_bind_) {
    refuse_inside_a_function("a new node");
  }
  std::int32_t node = static_cast<std::int32_t>(nodes_.size());
  if (free_.empty()) {
    nodes_.emplace_back();
  } else {
    node = free_.back();
    free_.pop_back();
  }
  Record& record = touch(node);
  record = Record{};
  record.kind = kind;
  record.generation = ++generations_;
  record.alive = true;
  record.scope = scope_;
  record.label = std::move(label);
  record.children = std::move(children);
  record.height = least_height(record);
  if (scope_ >= 0) {
    touch(scope_).scope_nodes.push_back(node);
  }
  ++counters_.nodes;
  ++counters_.created;
  return node;
}

std::int32_t Core::add_variable(std::string label, Stored value, Same same) {
  const std::int32_t node = add_record(NodeKind::variable, std::move(label), {});
  Record& record = touch(node);
  record.pending = std::move(value);
  record.same = same;
  return node;
}

std::int32_t Core::add_map(std::string label,
                           std::vector<std::int32_t> children,
                           std::function<Stored(const Inputs&)> compute,
                           Same same) {
  const std::int32_t node = add_record(NodeKind::map, std::move(label), std::move(children));
  Record& record = touch(node);
  record.compute = std::move(compute);
  record.same = same;
  return node;
}

std::int32_t Core::add_bind(std::string label,
                            std::int32_t left,
                            std::function<std::int32_t(const void*)> function,
                            Same same) {
  const std::int32_t chooser = add_record(NodeKind::bind_left, label + " (choice)", {left});
  const std::int32_t main = add_record(NodeKind::bind_main, std::move(label), {chooser});
  Record& choice = touch(chooser);
  choice.bind = std::move(function);
  choice.partner = main;
  Record& result = touch(main);
  result.same = same;
  result.partner = chooser;
  return main;
}

void Core::set_variable(std::int32_t node, Stored value) {
  refuse_inside_a_function("set");
  Record& record = touch(node);
  CAMBIUM_CHECK(record.kind == NodeKind::variable && record.valid, record.label);
  record.pending = std::move(value);
  if (record.necessary) {
    queue(node);
  }
}

void Core::set_cutoff(std::int32_t node, std::function<bool(const void*, const void*)> same) {
  touch(node).same = std::move(same);
}

void Core::observe(std::int32_t node) {
  refuse_inside_a_function("observe");
  CAMBIUM_CHECK(at(node).valid, "observe of an invalid node: " + at(node).label);
  ++touch(node).observers;
  if (!at(node).necessary) {
    make_necessary(node);
  }
}

void Core::unobserve(std::int32_t node) {
  refuse_inside_a_function("unobserve");
  CAMBIUM_CHECK(at(node).observers > 0, "unobserve without observe: " + at(node).label);
  --touch(node).observers;
  drop_if_unnecessary(node);
}

std::int32_t Core::resolve(NodeId id) const {
  const bool known = id.index >= 0 && id.index < size() && at(id.index).alive &&
                     at(id.index).generation == id.generation;
  if (!known) {
    throw Error(Code::bug,
                fmt::format("incremental: node {} is gone: rolled back, or its scope was replaced",
                            id.index));
  }
  return id.index;
}

NodeId Core::id_of(std::int32_t node) const {
  return {node, at(node).generation};
}

const Record& Core::record(std::int32_t node) const {
  return at(node);
}

std::int32_t Core::size() const {
  return static_cast<std::int32_t>(nodes_.size());
}

const Stored& Core::value(std::int32_t node) const {
  const Record& record = at(node);
  if (record.kind == NodeKind::variable && record.pending) {
    return record.pending;
  }
  if (!record.valid || !record.value) {
    throw Error(
        Code::bug,
        fmt::format("incremental: {}: no value: {}",
                    record.label,
                    record.valid ? "not observed at any stabilize" : "its scope was replaced"));
  }
  if (!record.necessary && record.kind != NodeKind::variable) {
    throw Error(Code::bug,
                fmt::format("incremental: {}: not observed, its value may be old", record.label));
  }
  return record.value;
}

std::optional<std::int32_t> Core::find_memo(const std::string& kind, std::uint64_t uid) const {
  const auto found = memo_.find({kind, uid});
  if (found == memo_.end() || !at(found->second).valid) {
    return std::nullopt;
  }
  return found->second;
}

std::int32_t Core::make_memo(const std::string& kind,
                             std::uint64_t uid,
                             const std::function<std::int32_t()>& make) {
  const std::int32_t scope = std::exchange(scope_, -1);
  std::int32_t node = -1;
  try {
    node = make();
  } catch (...) {
    scope_ = scope;
    throw;
  }
  scope_ = scope;
  CAMBIUM_CHECK(!find_memo(kind, uid), fmt::format("memo ({}, {}) asks for itself", kind, uid));
  set_memo({kind, uid}, node);
  return node;
}

bool Core::is_stable() const {
  for (const auto& bucket : heap_) {
    if (!bucket.empty()) {
      return false;
    }
  }
  return true;
}

}  // namespace cambium::incremental
