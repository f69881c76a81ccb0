// incremental/stabilize.cpp — brings the necessary nodes up to date, lowest first.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "incremental/core.hpp"

namespace cambium::incremental {
namespace {

// A flag that is set while a scope lasts, whatever ends it.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) {
    flag_ = true;
  }

  ~Raised() {
    flag_ = false;
  }

  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

}  // namespace

Counters Core::stabilize() {
  refuse_inside_a_function("stabilize");
  const bool implied = !transaction_;
  if (implied) {
    start_transaction(true);
  }
  const Counters before = counters_;
  ++stabilization_;
  try {
    for (std::int32_t node = pop(); node >= 0; node = pop()) {
      recompute(node);
    }
  } catch (...) {
    scope_ = -1;
    rollback();
    throw;
  }
  const Counters done{.nodes = counters_.nodes,
                      .necessary = counters_.necessary,
                      .recomputed = counters_.recomputed - before.recomputed,
                      .changed = counters_.changed - before.changed,
                      .cut_off = counters_.cut_off - before.cut_off,
                      .invalidated = counters_.invalidated - before.invalidated,
                      .created = counters_.created - before.created};
  if (implied) {
    commit();
  }
  return done;
}

void Core::recompute(std::int32_t node) {
  switch (at(node).kind) {
    case NodeKind::variable: {
      Stored pending = std::move(touch(node).pending);
      touch(node).pending.reset();
      finish(node, pending ? std::move(pending) : at(node).value);
      return;
    }
    case NodeKind::map: {
      Inputs inputs;
      for (const std::int32_t child : at(node).children) {
        inputs.push_back(at(child).value.get());
      }
      const Raised inside(in_function_);
      finish(node, at(node).compute(inputs));
      return;
    }
    case NodeKind::bind_left:
      recompute_bind(node);
      return;
    case NodeKind::bind_main: {
      const std::int32_t right = at(node).children.back();
      if (at(right).valid) {
        finish(node, at(right).value);
      } else {
        invalidate({node});
      }
      return;
    }
  }
}

void Core::finish(std::int32_t node, Stored value) {
  Record& record = touch(node);
  ++counters_.recomputed;
  record.recomputed_at = stabilization_;
  if (record.value && record.same(record.value.get(), value.get())) {
    ++counters_.cut_off;
    return;
  }
  ++counters_.changed;
  record.value = std::move(value);
  record.changed_at = stabilization_;
  for (const std::int32_t parent : at(node).parents) {
    queue(parent);
  }
}

// Runs the function in a new scope, connects what it chose, then disconnects the old choice: what
// both share stays necessary throughout. Then the nodes of the old scope are invalid.
void Core::recompute_bind(std::int32_t left) {
  const std::vector<std::int32_t> old_scope = std::move(touch(left).scope_nodes);
  touch(left).scope_nodes.clear();
  const std::int32_t input = at(left).children.front();
  std::int32_t right = -1;
  {
    const Raised inside(in_function_);
    const Raised may_add(in_bind_);
    const std::int32_t outer = std::exchange(scope_, left);
    const auto function = at(left).bind;  // a copy: the arena may move while it runs
    right = function(at(input).value.get());
    scope_ = outer;
  }
  const std::int32_t main = at(left).partner;
  const std::vector<std::int32_t> old_children = at(main).children;
  const std::int32_t old_right = old_children.size() > 1 ? old_children[1] : -1;
  if (right != old_right) {
    touch(main).children = {left, right};
    if (at(right).valid) {
      if (!at(right).necessary) {
        make_necessary(right);
      }
    }
    if (at(right).valid) {
      add_edge(right, main);
      raise_height(main, at(right).height + 1, right);
    }
    if (old_right >= 0 && at(old_right).valid) {
      remove_edge(old_right, main);
      drop_if_unnecessary(old_right);
    }
  }
  invalidate(old_scope);
  Record& record = touch(left);
  ++counters_.recomputed;
  ++counters_.changed;
  record.recomputed_at = stabilization_;
  record.changed_at = stabilization_;
  queue(main);
}

// An invalid node keeps nothing that names another node: those places may be given to others.
void Core::invalidate(const std::vector<std::int32_t>& nodes) {
  std::vector<std::int32_t> work = nodes;
  while (!work.empty()) {
    const std::int32_t node = work.back();
    work.pop_back();
    if (!at(node).valid) {
      continue;
    }
    unqueue(node);
    Record& record = touch(node);
    record.valid = false;
    record.value.reset();
    record.pending.reset();
    ++counters_.invalidated;
    --counters_.nodes;
    ++invalid_nodes_;
    const std::vector<std::int32_t> parents = std::exchange(record.parents, {});
    const std::vector<std::int32_t> inner = std::exchange(record.scope_nodes, {});
    work.insert(work.end(), inner.begin(), inner.end());
    if (record.partner >= 0) {
      work.push_back(std::exchange(record.partner, -1));
    }
    if (const std::int32_t scope = std::exchange(record.scope, -1); scope >= 0) {
      std::erase(touch(scope).scope_nodes, node);
    }
    for (const std::int32_t parent : parents) {
      const Record& above = at(parent);
      if (above.kind == NodeKind::bind_main && at(above.partner).valid) {
        queue(parent);  // its choice may yet be replaced; if not, it falls when it runs
      } else {
        work.push_back(parent);
      }
    }
    const std::vector<std::int32_t> children = std::exchange(record.children, {});
    if (record.necessary) {
      record.necessary = false;
      --counters_.necessary;
      for (const std::int32_t child : children) {
        if (at(child).valid) {
          remove_edge(child, node);
          drop_if_unnecessary(child);
        }
      }
    }
  }
}

}  // namespace cambium::incremental
