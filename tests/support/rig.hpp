// tests/support/rig.hpp — a whole network in one process: spec, store and engine on groups of one
// rank, which holds every logical shard. Parameters, gradients and slots are read and written
// whole, by name, as fp64 (an fp32 value keeps its bits).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "model/spec.hpp"
#include "support/tokens.hpp"
#include "support/whole.hpp"

namespace cambium::testing {

class Rig {
 public:
  using Values = testing::Values;

  explicit Rig(const model::Spec& network, const RigShape& rig_shape = {})
      : spec(network),
        shape(rig_shape),
        stream(shape.backend, 1),
        groups(self_groups()),
        store(spec,
              partition_of(spec, shape),
              store_shape_of(shape),
              std::make_shared<params::Arenas>()),
        runner(spec,
               store,
               stream,
               groups,
               {.schedule = shape.schedule,
                .tensor = {.batch = shape.batch,
                           .positions = shape.positions,
                           .hidden = spec.hidden,
                           .logical_tensor = shape.tensor,
                           .dtype = shape.dtype}}) {
    store.initialise(shape.seed);
    store.pack(stream);
  }

  const model::Spec spec;
  const RigShape shape;
  device::Stream stream;
  comm::MeshGroups groups;
  params::ParamStore store;
  engine::Engine runner;

  [[nodiscard]] std::vector<std::string> names() const {
    return names_of(store);
  }

  [[nodiscard]] Values value(const std::string& name) const {
    return value_of(store, name);
  }

  // Of the last run() over train micro-batches.
  [[nodiscard]] Values gradient(const std::string& name) {
    return read_whole(store, name, [&](params::Bucket& b) { return runner.sync().gradient(b); });
  }

  [[nodiscard]] Values exp_avg(const std::string& name) const {
    return read_whole(store, name, [](params::Bucket& b) { return b.exp_avg(); });
  }

  [[nodiscard]] Values exp_avg_sq(const std::string& name) const {
    return read_whole(store, name, [](params::Bucket& b) { return b.exp_avg_sq(); });
  }

  void set_value(const std::string& name, const Values& values) {
    testing::set_value(store, name, values);
    store.pack(stream);
  }

  // Every part whose parameter's name begins with `prefix` counts as updated so often: 1 opens what
  // was born closed.
  void set_updates(const std::string& prefix, std::int64_t updates) {
    for (const auto& b : store.buckets()) {
      for (params::Part& p : b->parts()) {
        if (p.spec.name.rfind(prefix, 0) == 0) {
          p.updates = updates;
        }
      }
    }
  }

  // The sum of losses over all data shards; for train micro-batches leaves the step's gradient.
  double run(const std::vector<engine::MicroBatch>& batches, const engine::PassHooks& hooks = {}) {
    const std::vector<double> losses = runner.run(batches, hooks);
    if (!batches.empty() && batches.back().mode == layers::Mode::train) {
      runner.sync().reduce();
    }
    return runner.sum_over_data(losses, 1)[0];
  }

  // One update; returns the losses and what the norm came to.
  std::pair<double, optimizer::StepTail> step(const std::vector<engine::MicroBatch>& batches,
                                              const config::OptimizerConfig& optimizer,
                                              double learning_rate) {
    const double loss = run(batches);
    optimizer::StepTail tail;
    runner.optimizer().reduce_norms(tail);
    runner.optimizer().update(optimizer, learning_rate, tail);
    return {loss, tail};
  }

  // Logits of one forward-only micro-batch, (T*B, V).
  [[nodiscard]] Values logits(Tokens& tokens) {
    std::vector<Tokens> one = {tokens};
    one[0].data_shard = 0;
    Values out(one[0].ids.size() * static_cast<std::size_t>(spec.vocabulary));
    engine::PassHooks hooks;
    hooks.logits = [&](Range rows, dim_t shard, device::View chunk) {
      const Range columns = share(spec.vocabulary, shape.tensor, shard);
      for (dim_t r = 0; r < chunk.rows; ++r) {
        for (dim_t c = 0; c < chunk.cols; ++c) {
          out[static_cast<std::size_t>((rows.begin + r) * spec.vocabulary + columns.begin + c)] =
              element_of(chunk, r * chunk.stride + c);
        }
      }
    };
    (void)runner.run(micro_batches(one, 0, layers::Mode::forward_only), hooks);
    return out;
  }
};

}  // namespace cambium::testing
