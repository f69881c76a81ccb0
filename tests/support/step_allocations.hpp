// tests/support/step_allocations.hpp — a small run on any mesh, and how many allocations one of its
// steady steps makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.hpp"
#include "support/allocations.hpp"
#include "support/tiny_spec.hpp"
#include "support/tokens.hpp"

namespace cambium::testing {

// Runs three steps of a tied Llama or GPT-2 with open and closed inserted blocks on the rank's
// place in `mesh`, and returns what the third allocated. Collective over all ranks of the mesh.
inline int allocations_of_steady_step(comm::MeshGroups groups,
                                      const comm::PhysicalMesh& mesh,
                                      int rank,
                                      const comm::LogicalMesh& logical,
                                      bool is_sharded,
                                      device::DType dtype,
                                      bool is_gpt2) {
  const RigShape shape{.backend = device::Backend::cpu,
                       .dtype = dtype,
                       .tensor = logical.tensor,
                       .data = logical.data,
                       .is_sharded = is_sharded};
  const model::Spec spec =
      with_blocks(is_gpt2 ? tiny_gpt2_spec() : tiny_spec(),
                  {"embedding", "layers.0.attention_norm", "layers.1.mlp", "norm"});
  const params::Partition where{.logical = logical,
                                .physical = mesh,
                                .place = comm::coordinates_of(mesh, rank),
                                .stages = model::plan_stages(spec, mesh.pipeline)};
  device::Stream stream(shape.backend, 1);
  params::ParamStore store(spec, where, store_shape_of(shape), std::make_shared<params::Arenas>());
  store.initialise(shape.seed);
  store.pack(stream);
  engine::Engine engine(spec,
                        store,
                        stream,
                        groups,
                        {.tensor = {.batch = shape.batch,
                                    .positions = shape.positions,
                                    .hidden = spec.hidden,
                                    .logical_tensor = shape.tensor,
                                    .dtype = shape.dtype}});
  std::vector<Tokens> mine;
  for (Tokens& t : draw_tokens(shape, spec.vocabulary, 3)) {
    if (where.data_shards().contains(t.data_shard)) {
      t.data_shard -= where.data_shards().begin;
      mine.push_back(std::move(t));
    }
  }
  const std::vector<engine::MicroBatch> batches = micro_batches(mine, 0.1);
  const config::OptimizerConfig optimizer;
  optimizer::StepTail tail;
  tail.last_stage.assign(1, 0.0);
  int made = 0;
  for (int step = 0; step < 3; ++step) {
    made = allocations_of([&] {
      tail.last_stage[0] = engine.run(batches, {})[0];
      engine.sync().reduce();
      engine.optimizer().reduce_norms(tail);
      engine.optimizer().update(optimizer, 1e-2, tail);
    });
  }
  return made;
}

}  // namespace cambium::testing
