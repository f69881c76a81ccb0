// incremental/graph.hpp — derived values that are recomputed only where an edit reaches them, with
// commit and rollback. After Jane Street's Incremental (variables, derived nodes, heights, cutoff,
// binds, observers). Values are pure: a node's function reads its inputs and nothing else, has no
// effect, and adds no nodes (a bind's may).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "incremental/core.hpp"
#include "incremental/node.hpp"

namespace cambium::incremental {

class Graph {
 public:
  template <typename T>
  Var<T> var(std::string label, T value) {
    return {core_.id_of(
        core_.add_variable(std::move(label), store(std::move(value)), same_content<T>))};
  }

  // Takes effect at the next stabilize.
  template <typename T>
  void set(Var<T> variable, std::type_identity_t<T> value) {
    core_.set_variable(core_.resolve(variable.id), store(std::move(value)));
  }

  // f(const T1&, …) -> R, for one to five inputs.
  template <typename F, typename... Ts>

  requires(sizeof...(Ts) >= 1 && sizeof...(Ts) <= 5 &&
           std::invocable<const F&, const Ts&...>) auto map(std::string label,
                                                            F f,
                                                            Node<Ts>... inputs) {
    using R = std::decay_t<std::invoke_result_t<const F&, const Ts&...>>;
    auto compute = [f = std::move(f)](const Inputs& in) {
      return apply<F, R, Ts...>(f, in, std::index_sequence_for<Ts...>{});
    };
    return Node<R>{core_.id_of(core_.add_map(
        std::move(label), {core_.resolve(inputs.id)...}, std::move(compute), same_content<R>))};
  }

  // f(const std::vector<const T*>&) -> R, over any number of inputs of one type, in their order.
  template <typename T, typename F>
  auto map_all(std::string label, F f, const std::vector<Node<T>>& inputs) {
    using Pointers = std::vector<const T*>;
    using R = std::decay_t<std::invoke_result_t<const F&, const Pointers&>>;
    std::vector<std::int32_t> children;
    for (const Node<T>& input : inputs) {
      children.push_back(core_.resolve(input.id));
    }
    auto compute = [f = std::move(f)](const Inputs& in) {
      Pointers pointers;
      for (const void* value : in) {
        pointers.push_back(static_cast<const T*>(value));
      }
      return store<R>(f(pointers));
    };
    return Node<R>{core_.id_of(
        core_.add_map(std::move(label), std::move(children), std::move(compute), same_content<R>))};
  }

  // f(const L&) -> Node<R>: a part of the graph that depends on a value. Nodes that f makes belong
  // to it: when `left` changes they become invalid and f runs again. Memo nodes do not belong to
  // it. f captures the graph by reference.
  template <typename L, typename F>
  auto bind(std::string label, Node<L> left, F f) {
    using NodeR = std::decay_t<std::invoke_result_t<const F&, const L&>>;
    using R = typename NodeR::value_type;
    auto function = [this, f = std::move(f)](const void* value) {
      return core_.resolve(static_cast<Node<R>>(f(*static_cast<const L*>(value))).id);
    };
    return Node<R>{core_.id_of(core_.add_bind(
        std::move(label), core_.resolve(left.id), std::move(function), same_content<R>))};
  }

  // The node of (kind, uid); made by make() -> Node<T> when there is none. Keyed by uid, never by a
  // position, so an insertion leaves all others alone. T must be the type with which it was made.
  template <typename F>
  auto memo(const std::string& kind, std::uint64_t uid, F make) {
    using NodeT = Node<typename std::invoke_result_t<F&>::value_type>;
    if (const std::optional<std::int32_t> found = core_.find_memo(kind, uid)) {
      return NodeT{core_.id_of(*found)};
    }
    return NodeT{core_.id_of(core_.make_memo(kind, uid, [&] { return core_.resolve(make().id); }))};
  }

  // same(const T& old, const T& new) -> bool decides whether dependants need to run.
  template <typename T, typename F>
  void set_cutoff(Node<T> node, F same) {
    core_.set_cutoff(core_.resolve(node.id),
                     [same = std::move(same)](const void* a, const void* b) {
                       return same(*static_cast<const T*>(a), *static_cast<const T*>(b));
                     });
  }

  // Only what an observed node needs is computed. Calls are counted; each observe needs its
  // unobserve.
  template <typename T>
  void observe(Node<T> node) {
    core_.observe(core_.resolve(node.id));
  }

  template <typename T>
  void unobserve(Node<T> node) {
    core_.unobserve(core_.resolve(node.id));
  }

  // The value of the last stabilize. Throws Error(bug) for a node that is invalid or was never
  // computed.
  template <typename T>
  [[nodiscard]] const T& value(Node<T> node) const {
    return *static_cast<const T*>(core_.value(core_.resolve(node.id)).get());
  }

  // The same, shared: outlives the graph's interest in it (diff(old, new)).
  template <typename T>
  [[nodiscard]] std::shared_ptr<const T> shared_value(Node<T> node) const {
    return std::static_pointer_cast<const T>(core_.value(core_.resolve(node.id)));
  }

  // Brings all observed nodes up to date, each node at most once, inputs first. Returns what this
  // call did. When a function throws, the transaction (an implied one if none is open) is rolled
  // back, and the exception goes on.
  Counters stabilize() {
    return core_.stabilize();
  }

  // One transaction at a time. rollback() puts back values, edges, heights, observers, counters and
  // drops new nodes (their handles are refused from then on); without an open transaction it does
  // nothing. commit() needs a stable graph.
  void begin() {
    core_.begin();
  }

  void commit() {
    core_.commit();
  }

  void rollback() {
    core_.rollback();
  }

  // Counts since the last begin() (since the graph was made, before the first).
  [[nodiscard]] const Counters& counters() const {
    return core_.counters();
  }

  // The untyped graph: in_transaction, is_stable, stabilization, check_invariants, dot.
  [[nodiscard]] const Core& core() const {
    return core_;
  }

  // Throws Error(bug) for a broken edge, height, heap or necessity.
  void check_invariants() const {
    core_.check_invariants();
  }

  // Graphviz: labels, heights, states.
  [[nodiscard]] std::string dot() const {
    return core_.dot();
  }

 private:
  template <typename T>
  static Stored store(T value) {
    return std::make_shared<const T>(std::move(value));
  }

  template <typename F, typename R, typename... Ts, std::size_t... I>
  static Stored apply(const F& f, const Inputs& in, std::index_sequence<I...> /*places*/) {
    return store<R>(f(*static_cast<const Ts*>(in[I])...));
  }

  Core core_;
};

}  // namespace cambium::incremental
