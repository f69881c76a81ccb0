// phases/grow.cpp — a growth step as a transaction over all ranks, inside the running job
// (design.md §6): propose → prepare → prove → vote → commit record → swap. Until the record is on
// the disk nothing has happened: the old store, spec and plans were not touched, so roll-back drops
// values. A restart from the checkpoint before repeats the surgery, which is a pure function of
// spec, operations and step; one that was rolled back is in the journal and stays so.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/hash.hpp"
#include "comm/collectively.hpp"
#include "growth/operation.hpp"
#include "model/inventory.hpp"
#include "phases/phase.hpp"
#include "phases/probe.hpp"
#include "phases/regrow.hpp"

namespace cambium::phases {
namespace {

constexpr const char* kRolledBack = "growth_rolled_back";
constexpr const char* kCommitted = "growth_committed";

struct Proposal {
  model::Spec spec;
  std::uint64_t hash = 0;
};

// The sequence length that the probe uses: that of the nearest training phase before, else behind.
dim_t probe_length(const Session& session) {
  const auto length_of = [](const config::Phase& p) -> dim_t {
    if (const auto* pretrain = std::get_if<config::PretrainPhase>(&p.settings)) {
      return pretrain->sequence_length;
    }
    return 0;
  };
  const auto& phases = session.campaign.phases;
  for (std::size_t i = session.state.phase; i-- > 0;) {
    if (const dim_t n = length_of(phases[i]); n > 0) {
      return n;
    }
  }
  for (std::size_t i = session.state.phase; i < phases.size(); ++i) {
    if (const dim_t n = length_of(phases[i]); n > 0) {
      return n;
    }
  }
  return std::min<dim_t>(session.state.spec.max_positions, 64);
}

// A check point of the protocol: an injected failure on any rank becomes one agreed error.
void pass_together(Session& session, const char* point) {
  if (session.watchdog) {
    session.watchdog->beat(session.state.step, point);
  }
  if (!session.faults.is_empty()) {
    comm::collectively(session.world.group(), point, [&] { (void)session.faults.pass(point); });
  }
}

void check_hashes(Session& session, std::uint64_t hash) {
  std::vector<std::int64_t> range = {static_cast<std::int64_t>(hash >> 1),
                                     -static_cast<std::int64_t>(hash >> 1)};
  session.world.group().all_reduce(std::span<std::int64_t>(range), comm::Reduce::min);
  if (range[0] != -range[1]) {
    throw comm::AgreedError(Code::bug, "growth: the ranks propose different networks", 0);
  }
}

Proposal propose(Session& session, const config::GrowPhase& phase) {
  return comm::collectively(session.world.group(), "growth: propose", [&] {
    Proposal p;
    p.spec = growth::grow(session.state.spec, phase.operations, session.state.step);
    p.hash = hash_text(model::to_json(p.spec).dump());
    growth::PlanShape shape = plan_shape(session, session.store->shape().is_sharded);
    shape.layers_per_stage.clear();
    if (!phase.rebalance) {
      shape.layers_per_stage = keep_in_place(session, p.spec);
    }
    session.plans->propose(p.spec, shape);
    return p;
  });
}

void prove(Session& session, const config::GrowPhase& phase, const ProbeResult& result) {
  if (result.differing > 0 || result.not_finite > 0) {
    throw comm::AgreedError(Code::bug,
                            fmt::format("{}: the grown network is not the old one: {} of {} probe "
                                        "logits have other bits (largest difference "
                                        "{}), {} are not finite; expected none",
                                        session.phase().name,
                                        result.differing,
                                        result.compared,
                                        result.max_difference,
                                        result.not_finite),
                            0);
  }
  (void)phase;
}

std::vector<std::string> describe(const config::GrowPhase& phase) {
  std::vector<std::string> lines;
  for (const config::GrowOperation& o : phase.operations) {
    const auto operation = growth::make_operation(o);
    lines.push_back(operation->describe() + " (" + growth::name_of(operation->claim()) + ")");
  }
  return lines;
}

std::string stages_text(const model::StageMap& map) {
  std::string text;
  for (int s = 0; s < map.stages(); ++s) {
    text += fmt::format("{}{}", s > 0 ? "+" : "", map.layer_count(s));
  }
  return text;
}

// Commits, or throws an agreed error with nothing changed.
void transact(Session& session, const config::GrowPhase& phase) {
  const metrics::Stopwatch pause;
  const ProbeShape probe{probe_length(session), std::max<dim_t>(phase.verify.batches, 1)};
  const std::string stages_before = stages_text(session.plans->stages());
  const dim_t parameters_before = parameter_count(session.store->entities());

  pass_together(session, "growth.propose");
  const Proposal proposal = propose(session, phase);
  check_hashes(session, proposal.hash);
  const std::vector<double> before =
      probe_logits(session, engine_for(session, probe.sequence_length), probe);

  pass_together(session, "growth.prepare");
  Regrown regrown = comm::collectively(session.world.group(), "growth: prepare", [&] {
    return prepare_store(session, proposal.spec);
  });
  pass_together(session, "growth.move");
  move_entities(session, regrown);
  auto engine = comm::collectively(session.world.group(), "growth: prepare", [&] {
    return std::make_unique<engine::Engine>(proposal.spec,
                                            *regrown.store,
                                            *session.stream,
                                            session.groups,
                                            engine_for(session, probe.sequence_length).shape());
  });

  pass_together(session, "growth.prove");
  const ProbeResult result = compare_probes(session, before, probe_logits(session, *engine, probe));
  prove(session, phase, result);
  engine.reset();

  pass_together(session, "growth.vote");
  comm::collectively(session.world.group(), "growth: commit record", [&] {
    if (session.writers) {
      session.writers->journal.write(
          session.state.step,
          kCommitted,
          {{"phase", session.phase().name}, {"spec", hash_hex(proposal.hash)}});
    }
  });
  session.faults.pass("growth.committed");

  std::vector<std::int64_t> bytes = {regrown.bytes_new, regrown.bytes_moved};
  session.world.group().all_reduce(std::span<std::int64_t>(bytes), comm::Reduce::sum);
  const incremental::Counters counters = session.plans->counters();
  adopt(session, proposal.spec, std::move(regrown));
  ++session.state.revision;
  session.state.lineage.push_back({{"phase", session.phase().name},
                                   {"step", session.state.step},
                                   {"operations", describe(phase)},
                                   {"spec", hash_hex(proposal.hash)}});
  note_event(session,
             "growth",
             {{"phase", session.phase().name},
              {"step", session.state.step},
              {"operations", describe(phase)},
              {"committed", true},
              {"probe_max_difference", result.max_difference},
              {"probe_values", result.compared},
              {"probe_differing", result.differing},
              {"nodes", counters.nodes},
              {"nodes_recomputed", counters.recomputed},
              {"bytes_allocated", bytes[0]},
              {"bytes_moved", bytes[1]},
              {"seconds", pause.seconds()},
              {"stages_before", stages_before},
              {"stages_after", stages_text(session.plans->stages())},
              {"parameters_before", parameters_before},
              {"parameters_after", parameter_count(session.store->entities())}});
  say(session,
      fmt::format("{}: committed in {:.2f} s: {} of {} probe logits have other bits, largest "
                  "difference {}; {} of {} plan "
                  "nodes recomputed; layers by stage {} -> {}; parameters {} -> {}",
                  session.phase().name,
                  pause.seconds(),
                  result.differing,
                  result.compared,
                  result.max_difference,
                  counters.recomputed,
                  counters.nodes,
                  stages_before,
                  stages_text(session.plans->stages()),
                  parameters_before,
                  parameter_count(session.store->entities())));
}

bool was_rolled_back(const Session& session) {
  for (const metrics::JournalEntry& e : metrics::Journal::read(session.run)) {
    if (e.decision == kRolledBack && e.step == session.state.step &&
        e.text("phase") == session.phase().name) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<dim_t> keep_in_place(const Session& session, const model::Spec& spec) {
  const model::StageMap& old = session.store->partition().stages;
  std::vector<dim_t> layers(old.first.size() - 1, 0);  // by virtual stage
  int stage = 0;
  for (const model::LayerSpec& l : spec.layers) {
    for (std::size_t i = 0; i < session.state.spec.layers.size(); ++i) {
      if (session.state.spec.layers[i].uid == l.uid) {
        stage = old.virtual_stage_of(static_cast<dim_t>(i));
      }
    }
    ++layers[static_cast<std::size_t>(stage)];
  }
  return layers;
}

PhaseEnd run_grow(Session& session) {
  const auto& phase = std::get<config::GrowPhase>(session.phase().settings);
  const bool is_skipped = comm::collectively(
      session.world.group(), "growth: journal", [&] { return was_rolled_back(session); });
  if (is_skipped) {
    say(session,
        session.phase().name +
            ": was rolled back in an earlier attempt; going on with the old network");
    return PhaseEnd::done;
  }
  try {
    transact(session, phase);
  } catch (const comm::AgreedError& e) {
    session.plans->rollback();
    if (phase.on_failure == config::OnFailure::stop) {
      throw;
    }
    const std::string reason = fmt::format("rank {}: {}", e.failed_rank(), e.what());
    comm::collectively(session.world.group(), "growth: roll back", [&] {
      if (session.writers) {
        session.writers->journal.write(
            session.state.step, kRolledBack, {{"phase", session.phase().name}, {"reason", reason}});
      }
    });
    note_event(session,
               "rollback",
               {{"phase", session.phase().name}, {"step", session.state.step}, {"reason", reason}});
    say(session, fmt::format("{}: rolled back on all ranks: {}", session.phase().name, reason));
    return PhaseEnd::done;
  }
  return PhaseEnd::done;
}

}  // namespace cambium::phases
