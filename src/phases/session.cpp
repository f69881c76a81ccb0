// SPDX-License-Identifier: Apache-2.0
#include "phases/session.hpp"

#include "base/error.hpp"
#include "config/words.hpp"

namespace cambium::phases {
namespace {

// Activations and their gradients; also what products multiply, so the type of the panels.
device::DType activations_of(const Session& session) {
  switch (session.campaign.run.precision) {
    case config::Precision::fp64:
      return device::DType::f64;
    case config::Precision::bf16:
      return device::DType::bf16;
    case config::Precision::fp32:
      break;
  }
  return device::DType::f32;
}

// Values, weight gradients and optimizer slots, here and in checkpoints.
device::DType masters_of(const Session& session) {
  return session.campaign.run.precision == config::Precision::fp64 ? device::DType::f64
                                                                   : device::DType::f32;
}

}  // namespace

params::Partition make_partition(const Session& session, const model::StageMap& stages) {
  const config::ParallelConfig& p = session.parallel;
  params::Partition where;
  where.logical = session.state.contract.logical;
  where.physical = {p.tensor, p.pipeline, p.context, p.data};
  where.place = comm::coordinates_of(where.physical, session.world.rank());
  where.stages = stages;
  return where;
}

growth::PlanShape plan_shape(const Session& session, bool is_sharded) {
  return {.stages = session.parallel.pipeline,
          .tensor_ranks = session.parallel.tensor,
          .data_ranks = session.parallel.data,
          .logical_tensor = session.state.contract.logical.tensor,
          .layers_per_stage = session.parallel.stages,
          .chunks = session.parallel.virtual_stages,
          .is_sharded = is_sharded,
          .element_bytes = static_cast<dim_t>(device::bytes_of(masters_of(session))),
          .panels = activations_of(session)};
}

void build_store(Session& session, bool is_sharded) {
  session.engines.clear();
  session.store.reset();
  growth::PlanShape shape = plan_shape(session, is_sharded);
  // A list of layers per stage is for the spec that the campaign starts with; a grown one is
  // balanced.
  dim_t listed = 0;
  for (const dim_t n : shape.layers_per_stage) {
    listed += n;
  }
  if (listed != static_cast<dim_t>(session.state.spec.layers.size()) &&
      session.state.revision > 0) {
    shape.layers_per_stage.clear();
  }
  session.plans = std::make_unique<growth::Plans>(session.state.spec, shape);
  session.store = std::make_unique<params::ParamStore>(
      session.state.spec,
      make_partition(session, session.plans->stages()),
      params::StoreShape{
          masters_of(session), is_sharded, session.stream->backend(), activations_of(session)},
      session.arenas);
}

engine::Engine& engine_for(Session& session, dim_t sequence_length) {
  std::unique_ptr<engine::Engine>& engine = session.engines[sequence_length];
  if (!engine) {
    const config::ParallelConfig& p = session.parallel;
    engine::EngineShape shape;
    shape.schedule = config::word_of(p.schedule);
    shape.recompute = p.recompute;
    shape.is_overlapped = p.overlap;
    shape.tensor = {.batch = p.micro_batch_size,
                    .positions = sequence_length,
                    .hidden = session.state.spec.hidden,
                    .logical_tensor = session.state.contract.logical.tensor,
                    .is_sequence_parallel = p.sequence_parallel,
                    .dtype = activations_of(session),
                    .reduction = p.reduction == config::Reduction::fast ? comm::Reduction::fast
                                                                        : comm::Reduction::exact};
    engine = std::make_unique<engine::Engine>(
        session.state.spec, *session.store, *session.stream, session.groups, shape);
  }
  return *engine;
}

void say(Session& session, const std::string& text) {
  if (session.writers) {
    session.log.info(text);
    session.writers->progress.line(text);
  }
}

void warn(Session& session, const std::string& text) {
  if (session.writers) {
    session.log.warn(text);
    session.writers->progress.line("warning: " + text);
  }
}

void note_event(Session& session, std::string_view event, const metrics::Fields& fields) {
  if (session.writers) {
    session.writers->events.write(event, fields);
  }
}

}  // namespace cambium::phases
