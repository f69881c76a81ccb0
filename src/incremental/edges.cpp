// incremental/edges.cpp — who needs whom, how high a node stands, and the queue by height.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "incremental/core.hpp"

namespace cambium::incremental {

void Core::add_edge(std::int32_t child, std::int32_t parent) {
  touch(child).parents.push_back(parent);
}

void Core::remove_edge(std::int32_t child, std::int32_t parent) {
  std::vector<std::int32_t>& parents = touch(child).parents;
  const auto found = std::ranges::find(parents, parent);
  CAMBIUM_CHECK(found != parents.end(), "edge to " + at(child).label);
  parents.erase(found);
}

// One more than everything that must run before it: its inputs, and the bind that made it, so that
// a node of a scope that is about to be replaced does not run first.
int Core::least_height(const Record& record) const {
  int height = 0;
  for (const std::int32_t child : record.children) {
    height = std::max(height, at(child).height + 1);
  }
  if (record.scope >= 0) {
    height = std::max(height, at(record.scope).height + 1);
  }
  return height;
}

bool Core::is_stale(const Record& record) const {
  if (!record.valid) {
    return false;
  }
  if (record.recomputed_at < 0 || record.pending) {
    return true;
  }
  return std::ranges::any_of(record.children, [&](std::int32_t child) {
    return at(child).changed_at > record.recomputed_at;
  });
}

bool Core::has_invalid_child(const Record& record) const {
  return std::ranges::any_of(record.children, [&](std::int32_t child) { return !at(child).valid; });
}

// Depth first without recursion: chains may be longer than the stack. Heights are set on the way
// back, when all inputs have theirs; nodes that are already necessary are right and are not
// entered.
void Core::make_necessary(std::int32_t root) {
  struct Visit {
    std::int32_t node;
    std::size_t next_child;
  };

  std::vector<Visit> path;
  std::vector<std::int32_t> invalid;
  const auto enter = [&](std::int32_t node) {
    touch(node).necessary = true;
    ++counters_.necessary;
    path.push_back({node, 0});
  };
  enter(root);
  while (!path.empty()) {
    const std::int32_t node = path.back().node;
    if (path.back().next_child < at(node).children.size()) {
      const std::int32_t child = at(node).children[path.back().next_child++];
      if (!at(child).valid) {
        continue;
      }
      add_edge(child, node);
      if (!at(child).necessary) {
        enter(child);
      }
      continue;
    }
    path.pop_back();
    if (has_invalid_child(at(node))) {
      if (at(node).kind == NodeKind::bind_main && at(at(node).partner).valid) {
        // What it stood for is gone; the choice is made again.
        const std::int32_t chooser = at(node).partner;
        touch(node).children = {chooser};
        touch(chooser).recomputed_at = -1;
        queue(chooser);
      } else {
        invalid.push_back(node);
      }
    }
    Record& record = touch(node);
    record.height = std::max(record.height, least_height(record));
    if (is_stale(record)) {
      queue(node);
    }
  }
  invalidate(invalid);
}

void Core::drop_if_unnecessary(std::int32_t node) {
  std::vector<std::int32_t> work{node};
  while (!work.empty()) {
    const std::int32_t next = work.back();
    work.pop_back();
    const Record& seen = at(next);
    if (!seen.valid || !seen.necessary || seen.observers > 0 || !seen.parents.empty()) {
      continue;
    }
    unqueue(next);
    touch(next).necessary = false;
    --counters_.necessary;
    for (const std::int32_t child : at(next).children) {
      if (at(child).valid) {
        remove_edge(child, next);
        work.push_back(child);
      }
    }
  }
}

// Lifts `node` to `height`, and what must stay above it. `origin` is the input whose new edge asked
// for it: meeting it again above means that it depends on itself.
void Core::raise_height(std::int32_t node, int height, std::int32_t origin) {
  std::vector<std::pair<std::int32_t, int>> work{{node, height}};
  while (!work.empty()) {
    const auto [next, least] = work.back();
    work.pop_back();
    if (at(next).height >= least) {
      continue;
    }
    const bool queued = at(next).heap_position >= 0;
    if (queued) {
      unqueue(next);
    }
    touch(next).height = least;
    if (queued) {
      queue(next);
    }
    const Record& raised = at(next);
    for (const std::int32_t parent : raised.parents) {
      if (parent == origin) {
        throw Error(Code::bug, "incremental: " + at(origin).label + " depends on itself");
      }
      work.emplace_back(parent, least + 1);
    }
    for (const std::int32_t inner : raised.scope_nodes) {
      if (at(inner).necessary) {
        work.emplace_back(inner, least + 1);
      }
    }
  }
}

void Core::queue(std::int32_t node) {
  Record& record = touch(node);
  if (record.heap_position >= 0) {
    return;
  }
  const auto height = static_cast<std::size_t>(record.height);
  if (height >= heap_.size()) {
    heap_.resize(height + 1);
  }
  record.heap_position = static_cast<std::int32_t>(heap_[height].size());
  heap_[height].push_back(node);
  lowest_ = std::min(lowest_, height);
}

void Core::unqueue(std::int32_t node) {
  if (at(node).heap_position < 0) {
    return;
  }
  Record& record = touch(node);
  std::vector<std::int32_t>& bucket = heap_[static_cast<std::size_t>(record.height)];
  const std::int32_t last = bucket.back();
  bucket[static_cast<std::size_t>(record.heap_position)] = last;
  touch(last).heap_position = record.heap_position;
  bucket.pop_back();
  record.heap_position = -1;
}

std::int32_t Core::pop() {
  while (lowest_ < heap_.size() && heap_[lowest_].empty()) {
    ++lowest_;
  }
  if (lowest_ == heap_.size()) {
    return -1;
  }
  const std::int32_t node = heap_[lowest_].back();
  unqueue(node);
  return node;
}

}  // namespace cambium::incremental
