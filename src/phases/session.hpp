// phases/session.hpp — a run in progress on this rank. Members die in reverse order: engines before
// store before groups.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/background.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/run_lock.hpp"
#include "comm/signals.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"
#include "config/campaign.hpp"
#include "device/stream.hpp"
#include "engine/engine.hpp"
#include "growth/plans.hpp"
#include "metrics/log.hpp"
#include "metrics/progress.hpp"
#include "metrics/writers.hpp"
#include "params/param_store.hpp"
#include "phases/fault_injection.hpp"
#include "phases/state.hpp"
#include "phases/stragglers.hpp"

namespace cambium::phases {

// What only world rank 0 has: the run's files and the terminal.
struct Writers {
  Writers(const std::filesystem::path& run, int attempt, const metrics::ProgressOptions& options)
      : metrics(run, attempt), events(run, attempt), journal(run, attempt), progress(options) {}

  metrics::MetricsWriter metrics;
  metrics::EventWriter events;
  metrics::Journal journal;
  metrics::Progress progress;
};

// A checkpoint on its way to the disk.
struct PendingCheckpoint {
  PendingCheckpoint(comm::Group& group,
                    checkpoint::WriteRequest request,
                    std::span<std::byte> staging)
      : write(group, std::move(request), staging) {}

  checkpoint::BackgroundWrite write;
  metrics::Stopwatch watch;
  double blocked = 0;  // seconds that training stood still for it
};

struct Session {
  comm::World& world;
  config::Campaign campaign;
  config::ParallelConfig parallel;  // resolved
  FaultInjection& faults;
  std::filesystem::path run;  // the run directory
  int attempt = 1;

  std::unique_ptr<checkpoint::RunLock> lock;  // rank 0
  std::optional<Writers> writers;             // rank 0
  metrics::Log log;
  comm::MeshGroups groups;
  comm::StopSignals signals;
  std::unique_ptr<comm::Watchdog> watchdog;
  std::unique_ptr<device::Stream> stream;
  std::shared_ptr<params::Arenas> arenas;
  State state;
  std::unique_ptr<growth::Plans> plans;
  std::unique_ptr<params::ParamStore> store;
  std::map<dim_t, std::unique_ptr<engine::Engine>> engines;  // by sequence length
  metrics::Stopwatch since_checkpoint;
  Stragglers stragglers;
  dim_t last_checkpoint_step = -1;
  std::vector<std::pair<dim_t, std::vector<engine::TracedAction>>> trace;

  // Checkpoints beside training: their own communicator, the copy that they are written from, and
  // the one on its way. Declared last: its thread ends before anything that it uses.
  std::unique_ptr<comm::Group> checkpoint_group;
  device::Buffer staging;
  std::unique_ptr<PendingCheckpoint> pending;

  [[nodiscard]] bool is_writer() const {
    return world.rank() == 0;
  }

  [[nodiscard]] const config::Phase& phase() const {
    return campaign.phases[state.phase];
  }

  [[nodiscard]] dim_t phase_step() const {
    return state.step - state.phase_begin;
  }
};

// The layout of `spec` on this rank.
[[nodiscard]] params::Partition make_partition(const Session& session,
                                               const model::StageMap& stages);

// What the plans need of this session's meshes.
[[nodiscard]] growth::PlanShape plan_shape(const Session& session, bool is_sharded);

// Engine for a sequence length; made once per shape, forgotten when the model changes.
[[nodiscard]] engine::Engine& engine_for(Session& session, dim_t sequence_length);

// (Re)builds plans, store and engines from state.spec; parameters are zero.
void build_store(Session& session, bool is_sharded);

// Writes to the log of rank 0, and to its terminal when `is_told`.
void say(Session& session, const std::string& text);

// The same as a warning.
void warn(Session& session, const std::string& text);

// events.jsonl on rank 0.
void note_event(Session& session, std::string_view event, const metrics::Fields& fields = {});

}  // namespace cambium::phases
