// SPDX-License-Identifier: Apache-2.0
#include "growth/plans.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/product.hpp"

namespace cambium::growth {

using incremental::Node;

namespace {

dim_t multiply_adds(const model::ParameterSpec& p) {
  return is_multiplied(p) ? p.elements() : 0;
}

// The largest share of a cut parameter over tensor ranks, elements.
template <typename F>
dim_t largest_share(const PlanShape& shape, F&& elements_of_shard) {
  dim_t most = 0;
  for (int r = 0; r < shape.tensor_ranks; ++r) {
    const Range held = share(shape.logical_tensor, shape.tensor_ranks, r);
    dim_t sum = 0;
    for (dim_t s = held.begin; s < held.end; ++s) {
      sum += elements_of_shard(s);
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

bool Plans::EntityShape::operator==(const EntityShape& other) const {
  return cost == other.cost &&
         std::equal(parameters.begin(),
                    parameters.end(),
                    other.parameters.begin(),
                    other.parameters.end(),
                    [](const model::ParameterSpec& a, const model::ParameterSpec& b) {
                      return a.uid == b.uid && a.rows == b.rows && a.cols == b.cols &&
                             a.cut == b.cut && a.units == b.units;
                    });
}

Plans::Plans(const model::Spec& spec, const PlanShape& shape)
    : order_(graph_.var("order", Order{})), shape_(graph_.var("shape", shape)) {
  graph_.begin();
  set_variables(spec, shape);
  make_nodes();
  graph_.stabilize();
  graph_.commit();
}

// A variable that is set counts as recomputed, though its value is what it was: an edit touches
// what it changes only.
template <typename T>
void Plans::set_if_new(incremental::Var<T> variable, const T& value) {
  if (!(graph_.value(Node<T>(variable)) == value)) {
    graph_.set(variable, value);
  }
}

void Plans::set_variables(const model::Spec& spec, const PlanShape& shape) {
  Order order;
  for (const model::Entity& e : inventory(spec)) {
    EntityShape value;
    for (model::ParameterSpec p : e.parameters) {
      p.name.clear();
      value.cost += static_cast<double>(multiply_adds(p));
      value.parameters.push_back(p);
    }
    if (e.kind == model::EntityKind::embedding && !spec.is_tied) {
      value.cost = 0;  // a look-up
    }
    order.push_back({e.uid, e.layer, false});
    const auto found = entities_.find(e.uid);
    if (found == entities_.end()) {
      entities_.emplace(e.uid, graph_.var("entity " + std::to_string(e.uid), value));
    } else {
      set_if_new(found->second, value);
    }
  }
  if (spec.is_tied) {
    order.push_back({spec.embedding_uid, static_cast<dim_t>(spec.layers.size()), true});
  }
  set_if_new(order_, order);
  set_if_new(shape_, shape);
}

Node<double> Plans::cost_of(std::uint64_t uid) {
  return graph_.memo("cost", uid, [&] {
    return graph_.map(
        "cost " + std::to_string(uid),
        [](const EntityShape& e) { return e.cost; },
        Node<EntityShape>(entities_.at(uid)));
  });
}

Node<BufferPlan> Plans::buffers_of(std::uint64_t uid) {
  return graph_.memo("buffers", uid, [&] {
    return graph_.map(
        "buffers " + std::to_string(uid),
        [](const EntityShape& e, const PlanShape& shape) {
          BufferPlan plan;
          dim_t elements = 0;
          for (const model::ParameterSpec& p : e.parameters) {
            elements +=
                p.cut == model::Cut::replicated ? p.elements() : largest_share(shape, [&](dim_t s) {
                  const model::Rectangle r = shard_of(p, shape.logical_tensor, s);
                  return r.rows.size() * r.cols.size();
                });
            if (is_multiplied(p)) {
              plan.panels +=
                  static_cast<dim_t>(device::bytes_of(shape.panels)) *
                  largest_share(shape, [&](dim_t s) {
                    const model::Rectangle r = shard_of(p, shape.logical_tensor, s);
                    return kernels::packed_elements(r.rows.size(), r.cols.size(), shape.panels) +
                           kernels::packed_elements(r.cols.size(), r.rows.size(), shape.panels);
                  });
            }
          }
          plan.values = elements * shape.element_bytes;
          plan.gradients = plan.values;
          plan.slots = 2 * (shape.is_sharded ? ceil_div(elements, shape.data_ranks) : elements) *
                       shape.element_bytes;
          return plan;
        },
        Node<EntityShape>(entities_.at(uid)),
        Node<PlanShape>(shape_));
  });
}

Node<std::vector<ProductShape>> Plans::products_of(std::uint64_t uid) {
  return graph_.memo("products", uid, [&] {
    return graph_.map(
        "products " + std::to_string(uid),
        [](const EntityShape& e, const PlanShape& shape) {
          std::vector<ProductShape> out;
          for (const model::ParameterSpec& p : e.parameters) {
            for (dim_t s = 0; s < shape.logical_tensor && is_multiplied(p); ++s) {
              const model::Rectangle r = shard_of(p, shape.logical_tensor, s);
              out.push_back({r.rows.size(), r.cols.size()});
            }
          }
          return out;
        },
        Node<EntityShape>(entities_.at(uid)),
        Node<PlanShape>(shape_));
  });
}

// Bytes that the checkpoint holds of the entity: values and two slots.
Node<dim_t> Plans::layout_of(std::uint64_t uid) {
  return graph_.memo("layout", uid, [&] {
    return graph_.map(
        "layout " + std::to_string(uid),
        [](const EntityShape& e, const PlanShape& shape) {
          dim_t elements = 0;
          for (const model::ParameterSpec& p : e.parameters) {
            elements += p.elements();
          }
          return 3 * elements * shape.element_bytes;
        },
        Node<EntityShape>(entities_.at(uid)),
        Node<PlanShape>(shape_));
  });
}

void Plans::make_nodes() {
  stages_ = graph_.bind("stages", Node<Order>(order_), [this](const Order& order) {
    std::vector<Node<double>> costs;
    for (const Place& p : order) {
      costs.push_back(cost_of(p.uid));
    }
    const Node<std::vector<double>> all = graph_.map_all(
        "costs",
        [order](const std::vector<const double*>& values) {
          std::vector<double> by_layer(1, 0.0);  // the last entry: what stands behind the layers
          for (const Place& p : order) {
            by_layer.resize(std::max(by_layer.size(),
                                     static_cast<std::size_t>(std::max<dim_t>(p.layer, 0)) + 1));
          }
          for (std::size_t i = 0; i < order.size(); ++i) {
            if (order[i].layer >= 0) {
              by_layer[static_cast<std::size_t>(order[i].layer)] += *values[i];
            }
          }
          return by_layer;
        },
        costs);
    return graph_.map(
        "stage map",
        [](const std::vector<double>& by_layer, const PlanShape& shape) {
          const std::vector<double> layers(by_layer.begin(), by_layer.end() - 1);
          return model::plan_stages(
              layers, by_layer.back(), shape.stages, shape.layers_per_stage, shape.chunks);
        },
        all,
        Node<PlanShape>(shape_));
  });
  graph_.observe(stages_);
  const int stages = graph_.value(Node<PlanShape>(shape_)).stages;
  for (int s = 0; s < stages; ++s) {
    stage_entities_.push_back(graph_.map(
        "entities of stage " + std::to_string(s),
        [s](const Order& order, const model::StageMap& map) {
          std::vector<std::uint64_t> uids;
          for (const Place& p : order) {
            if (map.stage_of(p.layer) == s && (!p.is_mirror || map.stages() > 1)) {
              uids.push_back(p.uid);
            }
          }
          return uids;
        },
        Node<Order>(order_),
        stages_));
    memory_.push_back(graph_.bind("memory of stage " + std::to_string(s),
                                  stage_entities_.back(),
                                  [this](const std::vector<std::uint64_t>& uids) {
                                    std::vector<Node<BufferPlan>> parts;
                                    for (const std::uint64_t uid : uids) {
                                      parts.push_back(buffers_of(uid));
                                    }
                                    return graph_.map_all(
                                        "sum",
                                        [](const std::vector<const BufferPlan*>& values) {
                                          BufferPlan total;
                                          for (const BufferPlan* v : values) {
                                            total.values += v->values;
                                            total.panels += v->panels;
                                            total.gradients += v->gradients;
                                            total.slots += v->slots;
                                          }
                                          return total;
                                        },
                                        parts);
                                  }));
    graph_.observe(memory_.back());
  }
  products_ = graph_.bind("products", Node<Order>(order_), [this](const Order& order) {
    std::vector<Node<std::vector<ProductShape>>> parts;
    for (const Place& p : order) {
      parts.push_back(products_of(p.uid));
    }
    return graph_.map_all(
        "distinct products",
        [](const std::vector<const std::vector<ProductShape>*>& values) {
          std::set<ProductShape> all;
          for (const auto* v : values) {
            all.insert(v->begin(), v->end());
          }
          return all;
        },
        parts);
  });
  graph_.observe(products_);
  layout_ = graph_.bind("layout", Node<Order>(order_), [this](const Order& order) {
    std::vector<Node<dim_t>> parts;
    for (const Place& p : order) {
      if (!p.is_mirror) {
        parts.push_back(layout_of(p.uid));
      }
    }
    return graph_.map_all(
        "checkpoint bytes",
        [](const std::vector<const dim_t*>& values) {
          dim_t total = 0;
          for (const dim_t* v : values) {
            total += *v;
          }
          return total;
        },
        parts);
  });
  graph_.observe(layout_);
}

void Plans::propose(const model::Spec& spec, const PlanShape& shape) {
  entities_before_ = entities_;
  is_open_ = true;
  graph_.begin();
  try {
    set_variables(spec, shape);
    graph_.stabilize();
  } catch (...) {
    rollback();
    throw;
  }
}

void Plans::commit() {
  graph_.commit();
  is_open_ = false;
}

void Plans::rollback() {
  if (is_open_) {
    graph_.rollback();
    entities_ = entities_before_;
    is_open_ = false;
  }
}

const model::StageMap& Plans::stages() const {
  return graph_.value(stages_);
}

const std::vector<std::uint64_t>& Plans::entities_of(int stage) const {
  return graph_.value(stage_entities_[static_cast<std::size_t>(stage)]);
}

BufferPlan Plans::memory_of(int stage) const {
  return graph_.value(memory_[static_cast<std::size_t>(stage)]);
}

dim_t Plans::checkpoint_bytes() const {
  return graph_.value(layout_);
}

const std::set<ProductShape>& Plans::products() const {
  return graph_.value(products_);
}

}  // namespace cambium::growth
