// incremental/node.hpp — typed handles, and when two values count as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "incremental/core.hpp"

namespace cambium::incremental {

// A handle; the graph owns the value.
template <typename T>
struct Node {
  using value_type = T;
  NodeId id;
};

// A node whose value is set from outside.
template <typename T>
struct Var : Node<T> {};

// When a recomputed value counts as the old one: equal hash_of(value) (found by the value's
// namespace) if there is one, else ==, else never. set_cutoff overrides it for a node.
template <typename T>
concept HasContentHash = requires(const T& v) {
  { hash_of(v) } -> std::convertible_to<std::uint64_t>;
};

template <typename T>
bool same_content(const void* a, const void* b) {
  const T& left = *static_cast<const T*>(a);
  const T& right = *static_cast<const T*>(b);
  if constexpr (HasContentHash<T>) {
    return hash_of(left) == hash_of(right);
  } else if constexpr (std::equality_comparable<T>) {
    return left == right;
  } else {
    return false;
  }
}

}  // namespace cambium::incremental
