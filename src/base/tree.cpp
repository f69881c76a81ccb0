// SPDX-License-Identifier: Apache-2.0
#include "base/tree.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.hpp"

namespace cambium {

SumTree::SumTree(dim_t leaves) : leaves_(leaves) {
  CAMBIUM_CHECK(leaves > 0, "a sum of nothing");
  std::vector<dim_t> level;
  for (dim_t i = 0; i < leaves; ++i) {
    nodes_.push_back({{i, i + 1}, -1, -1, -1});
    level.push_back(i);
  }
  const auto join = [this](dim_t a, dim_t b) {
    const auto id = static_cast<dim_t>(nodes_.size());
    nodes_.push_back({{node(a).leaves.begin, node(b).leaves.end}, a, b, -1});
    nodes_[static_cast<std::size_t>(a)].parent = id;
    nodes_[static_cast<std::size_t>(b)].parent = id;
    return id;
  };
  while (level.size() > 1 && level.size() % 2 == 0) {
    std::vector<dim_t> next;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      next.push_back(join(level[i], level[i + 1]));
    }
    level = next;
  }
  dim_t total = level[0];
  for (std::size_t i = 1; i < level.size(); ++i) {
    total = join(total, level[i]);
  }
}

std::vector<dim_t> SumTree::maximal_subtrees(Range held) const {
  std::vector<dim_t> found;
  const auto inside = [&](const Node& n) {
    return held.begin <= n.leaves.begin && n.leaves.end <= held.end;
  };
  for (dim_t i = 0; i <= root(); ++i) {
    if (inside(node(i)) && (node(i).parent < 0 || !inside(node(node(i).parent)))) {
      found.push_back(i);
    }
  }
  std::sort(found.begin(), found.end(), [this](dim_t a, dim_t b) {
    return node(a).leaves.begin < node(b).leaves.begin;
  });
  return found;
}

LocalSum plan_local_sum(const SumTree& tree, Range held) {
  LocalSum plan;
  plan.nodes = tree.maximal_subtrees(held);
  std::map<dim_t, dim_t> buffer_of;  // finished node -> buffer
  std::vector<dim_t> free_buffers;
  const auto take = [&] {
    if (free_buffers.empty()) {
      return plan.buffers++;
    }
    const auto lowest = std::min_element(free_buffers.begin(), free_buffers.end());
    const dim_t b = *lowest;
    free_buffers.erase(lowest);
    return b;
  };
  const auto is_end = [&](dim_t id) {
    return std::find(plan.nodes.begin(), plan.nodes.end(), id) != plan.nodes.end();
  };
  for (dim_t leaf = held.begin; leaf < held.end; ++leaf) {
    const dim_t buffer = take();
    plan.leaf_buffer.push_back(buffer);
    buffer_of[leaf] = buffer;
    std::vector<AddStep> steps;
    dim_t id = leaf;
    while (!is_end(id)) {
      const SumTree::Node& parent = tree.node(tree.node(id).parent);
      const auto left = buffer_of.find(parent.left);
      const auto right = buffer_of.find(parent.right);
      if (left == buffer_of.end() || right == buffer_of.end()) {
        break;
      }
      steps.push_back({left->second, right->second});
      free_buffers.push_back(right->second);
      const dim_t kept = left->second;
      id = tree.node(id).parent;
      buffer_of.erase(parent.left);
      buffer_of.erase(parent.right);
      buffer_of[id] = kept;
    }
    plan.after.push_back(steps);
  }
  for (const dim_t id : plan.nodes) {
    plan.node_buffer.push_back(buffer_of.at(id));
  }
  return plan;
}

ResidentSum plan_resident_sum(const SumTree& tree, Range held) {
  ResidentSum plan;
  const std::function<dim_t(dim_t)> fold = [&](dim_t id) -> dim_t {
    const SumTree::Node& n = tree.node(id);
    if (n.left < 0) {
      return id - held.begin;
    }
    const dim_t left = fold(n.left);
    plan.steps.push_back({left, fold(n.right)});
    return left;
  };
  for (const dim_t id : tree.maximal_subtrees(held)) {
    plan.node_slot.push_back(fold(id));
  }
  return plan;
}

GlobalSum plan_global_sum(const SumTree& tree, const std::vector<Range>& held_by_rank) {
  GlobalSum plan;
  std::map<dim_t, dim_t> slot_of;
  for (const Range& held : held_by_rank) {
    plan.first_slot.push_back(plan.slots);
    plan.nodes_by_rank.push_back(tree.maximal_subtrees(held));
    for (const dim_t id : plan.nodes_by_rank.back()) {
      slot_of[id] = plan.slots++;
    }
  }
  const std::function<dim_t(dim_t)> resolve = [&](dim_t id) -> dim_t {
    const auto found = slot_of.find(id);
    if (found != slot_of.end()) {
      return found->second;
    }
    const SumTree::Node& n = tree.node(id);
    CAMBIUM_CHECK(n.left >= 0, "leaf " + std::to_string(id) + " is held by no rank");
    const dim_t left = resolve(n.left);
    const dim_t right = resolve(n.right);
    plan.steps.push_back({left, right});
    return left;
  };
  CAMBIUM_CHECK(resolve(tree.root()) == 0, "the ranks' ranges do not ascend");
  return plan;
}

}  // namespace cambium
