// incremental/core.hpp — the graph without types: records, edges, heights, the recompute heap, the
// undo log. Use graph.hpp; this is what its templates call. After Jane Street's Incremental, with
// commit and rollback added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace cambium::incremental {

// Place in the arena, and which of the nodes that lived there.
struct NodeId {
  std::int32_t index = -1;
  std::uint32_t generation = 0;

  auto operator<=>(const NodeId&) const = default;
};

// `nodes` and `necessary` are the present state; the rest count what happened.
struct Counters {
  dim_t nodes = 0;
  dim_t necessary = 0;
  dim_t recomputed = 0;
  dim_t changed = 0;
  dim_t cut_off = 0;  // recomputed, and the value is what it was
  dim_t invalidated = 0;
  dim_t created = 0;

  bool operator==(const Counters&) const = default;
};

using Stored = std::shared_ptr<const void>;
using Inputs = std::vector<const void*>;
using Same = bool (*)(const void*, const void*);

enum class NodeKind { variable, map, bind_left, bind_main };

struct Record {
  NodeKind kind = NodeKind::map;
  std::uint32_t generation = 0;
  bool alive = false;      // the place holds a node
  bool valid = true;       // false: its scope is gone; never computed again
  bool necessary = false;  // an observer reaches it
  int observers = 0;
  int height = 0;
  std::int64_t recomputed_at = -1;  // stabilization numbers
  std::int64_t changed_at = -1;
  std::int32_t heap_position = -1;  // in the bucket of its height; -1: not queued
  std::int32_t scope = -1;          // the bind_left in whose function it was made
  std::int32_t partner = -1;        // bind_left <-> bind_main
  std::string label;
  std::vector<std::int32_t> children;     // what it depends on, as given (may repeat)
  std::vector<std::int32_t> parents;      // necessary dependants, one entry per edge
  std::vector<std::int32_t> scope_nodes;  // of a bind_left: the nodes its function made
  Stored value;
  Stored pending;  // of a variable: set, not yet stabilized
  std::function<Stored(const Inputs&)> compute;
  std::function<std::int32_t(const void*)> bind;  // of a bind_left
  std::function<bool(const void*, const void*)> same;
};

class Core {
 public:
  std::int32_t add_variable(std::string label, Stored value, Same same);
  std::int32_t add_map(std::string label,
                       std::vector<std::int32_t> children,
                       std::function<Stored(const Inputs&)> compute,
                       Same same);
  // Returns the bind_main.
  std::int32_t add_bind(std::string label,
                        std::int32_t left,
                        std::function<std::int32_t(const void*)> function,
                        Same same);
  void set_variable(std::int32_t node, Stored value);
  void set_cutoff(std::int32_t node, std::function<bool(const void*, const void*)> same);
  void observe(std::int32_t node);
  void unobserve(std::int32_t node);

  [[nodiscard]] std::int32_t resolve(NodeId id) const;  // throws Error(bug) for a node that is gone
  [[nodiscard]] NodeId id_of(std::int32_t node) const;
  [[nodiscard]] const Stored& value(std::int32_t node) const;
  [[nodiscard]] const Record& record(std::int32_t node) const;
  [[nodiscard]] std::int32_t size() const;

  // The node of (kind, uid), if it is there and valid.
  [[nodiscard]] std::optional<std::int32_t> find_memo(const std::string& kind,
                                                      std::uint64_t uid) const;
  // `make` runs outside every scope, so that the node outlives the bind that asked for it.
  std::int32_t make_memo(const std::string& kind,
                         std::uint64_t uid,
                         const std::function<std::int32_t()>& make);

  Counters stabilize();
  void begin();
  void commit();
  void rollback();

  [[nodiscard]] bool in_transaction() const {
    return transaction_ != nullptr;
  }

  [[nodiscard]] bool is_stable() const;

  [[nodiscard]] const Counters& counters() const {
    return counters_;
  }

  [[nodiscard]] std::int64_t stabilization() const {
    return stabilization_;
  }

  void check_invariants() const;
  [[nodiscard]] std::string dot() const;

 private:
  using Memo = std::map<std::pair<std::string, std::uint64_t>, std::int32_t>;

  // What rollback puts back: each record as it was before its first change, and all the small
  // state.
  struct Transaction {
    std::int32_t size = 0;
    std::unordered_map<std::int32_t, Record> before;
    std::vector<std::vector<std::int32_t>> heap;
    std::vector<std::int32_t> free;
    std::vector<std::pair<Memo::key_type, std::int32_t>> memo_before;  // -1: was not there
    Counters counters;
    std::int64_t stabilization = 0;
    dim_t invalid_nodes = 0;
    bool implied = false;  // by a stabilize outside a transaction
  };

  Record& touch(std::int32_t node);
  [[nodiscard]] const Record& at(std::int32_t node) const;
  std::int32_t add_record(NodeKind kind, std::string label, std::vector<std::int32_t> children);
  void refuse_inside_a_function(const char* what) const;

  void add_edge(std::int32_t child, std::int32_t parent);
  void remove_edge(std::int32_t child, std::int32_t parent);
  void make_necessary(std::int32_t node);
  void drop_if_unnecessary(std::int32_t node);
  void raise_height(std::int32_t node, int height, std::int32_t origin);
  [[nodiscard]] int least_height(const Record& record) const;
  [[nodiscard]] bool is_stale(const Record& record) const;

  void queue(std::int32_t node);
  void unqueue(std::int32_t node);
  [[nodiscard]] std::int32_t pop();

  void recompute(std::int32_t node);
  void recompute_bind(std::int32_t left);
  void finish(std::int32_t node, Stored value);
  void invalidate(const std::vector<std::int32_t>& nodes);
  void collect();
  void free_node(std::int32_t node);
  void check_record(std::int32_t node) const;
  void start_transaction(bool implied);
  void set_memo(const Memo::key_type& key, std::int32_t node);
  [[nodiscard]] bool has_invalid_child(const Record& record) const;

  std::vector<Record> nodes_;
  std::vector<std::int32_t> free_;
  std::vector<std::vector<std::int32_t>> heap_;  // bucket per height, grows with the graph
  std::size_t lowest_ = 0;                       // no bucket below it holds a node
  Memo memo_;
  Counters counters_;
  std::int64_t stabilization_ = 0;
  std::int32_t scope_ = -1;   // of the bind whose function runs
  bool in_function_ = false;  // a function of a node runs
  bool in_bind_ = false;      // … and it is a bind's, which may add nodes
  std::uint32_t generations_ =
      0;  // nodes ever made; not put back by rollback, so that no handle comes alive again
  dim_t invalid_nodes_ = 0;  // still in the arena
  std::unique_ptr<Transaction> transaction_;
};

}  // namespace cambium::incremental
