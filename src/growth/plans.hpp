// growth/plans.hpp — what a run derives from its spec, as a graph of pure values: a growth step
// recomputes only what lies downstream of the edit. Effects (memory, moves) come after the vote,
// from the difference of old and new values. Nodes are keyed by an entity's uid, never by a layer's
// index, so an inserted block leaves all others alone:
//
//   entity[uid] (var) ─▶ buffers[uid] ─▶ memory[stage] ─┐
//        │       ├─────▶ products[uid] ─▶ products      ├─▶ observed
//        │       └─────▶ layout[uid] ──▶ layout ────────┘
//   order (var) ─▶ stages ─▶ entities of stage[s]
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/view.hpp"
#include "incremental/graph.hpp"
#include "model/inventory.hpp"
#include "model/stages.hpp"

namespace cambium::growth {

struct PlanShape {
  int stages = 1;
  int tensor_ranks = 1;
  int data_ranks = 1;
  dim_t logical_tensor = 1;
  std::vector<dim_t> layers_per_stage;  // of virtual stages; empty: balanced
  int chunks = 1;                       // virtual stages of each stage
  bool is_sharded = true;
  dim_t element_bytes = 4;  // of values, gradients and slots
  device::DType panels = device::DType::f32;

  bool operator==(const PlanShape&) const = default;
};

// One entity's memory on a tensor rank of its stage (the largest of them), bytes.
struct BufferPlan {
  dim_t values = 0;
  dim_t panels = 0;
  dim_t gradients = 0;
  dim_t slots = 0;

  [[nodiscard]] dim_t total() const {
    return values + panels + gradients + slots;
  }

  bool operator==(const BufferPlan&) const = default;
};

// One product y = x W^T: rows and columns of the weight on one shard.
struct ProductShape {
  dim_t rows = 0;
  dim_t cols = 0;

  auto operator<=>(const ProductShape&) const = default;
};

class Plans {
 public:
  Plans(const model::Spec& spec, const PlanShape& shape);

  // Opens a transaction, applies the spec as edits of the variables, and recomputes what follows.
  // Throws what a plan throws (a stage without a layer, …), rolled back.
  void propose(const model::Spec& spec, const PlanShape& shape);
  void commit();
  // Does nothing without an open transaction.
  void rollback();

  [[nodiscard]] const model::StageMap& stages() const;
  // Entities on stage s, in order of execution; the mirror of a tied table stands last on the last
  // of several stages.
  [[nodiscard]] const std::vector<std::uint64_t>& entities_of(int stage) const;
  [[nodiscard]] BufferPlan memory_of(int stage) const;
  // Values and slots of the whole model on disk.
  [[nodiscard]] dim_t checkpoint_bytes() const;
  // Distinct product shapes of the model.
  [[nodiscard]] const std::set<ProductShape>& products() const;

  // Of the open or last transaction.
  [[nodiscard]] const incremental::Counters& counters() const {
    return graph_.counters();
  }

  [[nodiscard]] std::string dot() const {
    return graph_.dot();
  }

  void check_invariants() const {
    graph_.check_invariants();
  }

 private:
  // What the plans need of an entity; names are positions and stay out.
  struct EntityShape {
    std::vector<model::ParameterSpec> parameters;  // names empty
    double cost = 0;

    bool operator==(const EntityShape& other) const;
  };

  struct Place {
    std::uint64_t uid = 0;
    dim_t layer = 0;
    bool is_mirror =
        false;  // a tied table's work as the head; a copy of it where that is another stage

    bool operator==(const Place&) const = default;
  };

  using Order = std::vector<Place>;

  template <typename T>
  void set_if_new(incremental::Var<T> variable, const T& value);
  void set_variables(const model::Spec& spec, const PlanShape& shape);
  void make_nodes();
  incremental::Node<BufferPlan> buffers_of(std::uint64_t uid);
  incremental::Node<std::vector<ProductShape>> products_of(std::uint64_t uid);
  incremental::Node<dim_t> layout_of(std::uint64_t uid);
  incremental::Node<double> cost_of(std::uint64_t uid);

  incremental::Graph graph_;
  std::map<std::uint64_t, incremental::Var<EntityShape>> entities_;
  std::map<std::uint64_t, incremental::Var<EntityShape>> entities_before_;
  bool is_open_ = false;
  incremental::Var<Order> order_;
  incremental::Var<PlanShape> shape_;
  incremental::Node<model::StageMap> stages_;
  std::vector<incremental::Node<std::vector<std::uint64_t>>> stage_entities_;
  std::vector<incremental::Node<BufferPlan>> memory_;
  incremental::Node<std::set<ProductShape>> products_;
  incremental::Node<dim_t> layout_;
};

}  // namespace cambium::growth
