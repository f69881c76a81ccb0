// SPDX-License-Identifier: Apache-2.0
#include "phases/campaign.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sched.h>
#include <span>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "checkpoint/hooks.hpp"
#include "comm/collectively.hpp"
#include "comm/launcher.hpp"
#include "config/resolve_parallel.hpp"
#include "data/check_data.hpp"
#include "kernels/cpu/isa.hpp"
#include "metrics/report.hpp"
#include "model/inventory.hpp"
#include "phases/checkpointing.hpp"
#include "phases/free_keys.hpp"
#include "phases/phase.hpp"
#include "phases/phase_text.hpp"
#include "phases/resume.hpp"
#include "phases/timeline.hpp"
#include "phases/training.hpp"

namespace cambium::phases {
namespace {

int cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

device::Backend backend_of(const config::RunConfig& run) {
  using config::DeviceKind;
  if (run.precision == config::Precision::fp64 || run.device == DeviceKind::reference) {
    return device::Backend::reference;
  }
  if (run.device == DeviceKind::cuda) {
    throw Error(Code::usage, "run.device: cuda is not in this build; use auto, cpu or reference");
  }
  if (!kernels::cpu::has_cpu_backend()) {
    if (run.device == DeviceKind::cpu) {
      throw Error(Code::usage,
                  "run.device: cpu needs AVX2 and FMA, which this processor lacks; use reference");
    }
    return device::Backend::reference;
  }
  return device::Backend::cpu;
}

void select_isa(config::Isa isa) {
  using kernels::cpu::Isa;
  switch (isa) {
    case config::Isa::automatic:
      return kernels::cpu::select_isa(Isa::automatic);
    case config::Isa::avx2:
      return kernels::cpu::select_isa(Isa::avx2);
    case config::Isa::avx512:
      return kernels::cpu::select_isa(Isa::avx512);
  }
}

std::unique_ptr<device::Stream> make_stream(const config::RunConfig& run) {
  const device::Backend backend = backend_of(run);
  if (backend == device::Backend::cpu) {
    select_isa(run.isa);
  }
  const int local = comm::local_ranks(comm::process_environment()).value_or(1);
  const int threads = run.threads > 0 ? static_cast<int>(run.threads)
                                      : std::max(1, cores_of_this_process() / std::max(local, 1));
  auto stream = std::make_unique<device::Stream>(backend, threads);
  stream->pool().run([](int) { kernels::cpu::set_float_mode(); });
  return stream;
}

// Every rank must have read the same bytes (a lagging file system shows here, not as another loss).
void check_same_config(comm::World& world, const config::Campaign& campaign) {
  const auto hash = static_cast<std::int64_t>(hash_text(config::resolved_yaml(campaign)) >> 1);
  std::vector<std::int64_t> range = {hash, -hash};
  world.group().all_reduce(std::span<std::int64_t>(range), comm::Reduce::min);
  if (range[0] != -range[1]) {
    throw comm::AgreedError(
        Code::usage, "config: the ranks read different files; is the file system shared?", 0);
  }
}

void announce(Session& session, const Start& start) {
  const config::ParallelConfig& p = session.parallel;
  const comm::LogicalMesh& l = session.state.contract.logical;
  note_event(
      session,
      start.from ? "restart" : "started",
      {{"step", session.state.step},
       {"checkpoint", start.from ? start.from->path.filename().string() : ""},
       {"from_layout", start.from_layout},
       {"to_layout", fmt::format("{}x{}x{}x{}", p.tensor, p.pipeline, p.context, p.data)},
       {"changed", metrics::RawJson{changed_keys(start.from_keys, free_keys(session)).dump()}},
       {"lines_cut", start.lines_cut}});
  for (const std::string& w : start.warnings) {
    warn(session, w);
  }
  say(session,
      fmt::format("{}: {} rank{}, tensor {} x pipeline {} x data {}; logical mesh tensor {} x data "
                  "{} decides the numbers "
                  "(against 1 x 1 a rank that holds several shards runs them one after the other); "
                  "{} on {}, {} thread{} a "
                  "rank; {} parameters",
                  session.campaign.run.name,
                  session.world.size(),
                  session.world.size() == 1 ? "" : "s",
                  p.tensor,
                  p.pipeline,
                  p.data,
                  l.tensor,
                  l.data,
                  session.state.contract.precision,
                  device::name_of(session.stream->backend()),
                  session.stream->pool().size(),
                  session.stream->pool().size() == 1 ? "" : "s",
                  parameter_count(session.store->entities())));
  if (session.world.is_alone()) {
    say(session, "no launcher: this process runs the whole mesh alone (1 x 1 x 1 x 1)");
  }
  if (start.from) {
    say(session,
        fmt::format("attempt {}: going on from {} (step {})",
                    session.attempt,
                    start.from->path.filename().string(),
                    session.state.step));
  }
}

void begin_phase(Session& session) {
  State& state = session.state;
  const config::Phase& phase = session.phase();
  const bool shard = is_sharded(phase, session.store->shape().is_sharded);
  if (state.phases.size() <= state.phase) {
    const DataNames names = name_data(session.world.group(), std::span(&phase, 1));
    state.phases.push_back(phase_text(session.campaign, state.phase, names));
  }
  if (phase.start_from && !state.is_phase_begun) {
    start_from_phase(session, *phase.start_from, shard);
  } else if (shard != session.store->shape().is_sharded) {
    reshape_store(session, shard);
  }
  metrics::Fields fields{{"phase", phase.name}, {"kind", phase.kind()}, {"step", state.step}};
  if (const auto* mtssl = std::get_if<config::MtsslPhase>(&phase.settings)) {
    constexpr const char* kKinds[] = {"learned", "fixed", "off"};
    fields.add("threshold", kKinds[static_cast<int>(mtssl->threshold.kind)]);
  }
  if (phase.start_from) {
    fields.add("start_from", *phase.start_from);
  }
  note_event(session, "phase_started", fields);
}

void end_phase(Session& session, double seconds) {
  State& state = session.state;
  const config::Phase phase = session.phase();
  note_event(
      session,
      "phase_finished",
      {{"phase", phase.name}, {"kind", phase.kind()}, {"step", state.step}, {"seconds", seconds}});
  // The checkpoint of a phase's end is the first of the next phase: a restart begins there.
  const std::size_t ended = state.phase++;
  state.phase_begin = state.step;
  state.is_phase_begun = false;
  const bool is_changed = phase.steps() > 0 || phase.kind() == "grow";
  if (is_changed || state.phase == session.campaign.phases.size() ||
      is_phase_end_kept(session.campaign, ended)) {
    const auto why = phase.kind() == "grow" ? CheckpointWhy::growth : CheckpointWhy::phase_end;
    keep_phase_end(session, ended, save_checkpoint(session, why));
  }
}

CampaignEnd run_phases(Session& session) {
  State& state = session.state;
  while (state.phase < session.campaign.phases.size()) {
    // Growth is left alone, and soon over; what asks to stop meanwhile is heard before the next.
    if (const int signal = agreed_signal(session); signal != 0) {
      save_and_stop(session, signal);
      note_event(session, "stopped", {{"phase", session.phase().name}, {"step", state.step}});
      return CampaignEnd::stopped;
    }
    begin_phase(session);
    const metrics::Stopwatch watch;
    if (find_phase(session.phase().kind())(session) == PhaseEnd::stopped) {
      note_event(session, "stopped", {{"phase", session.phase().name}, {"step", state.step}});
      return CampaignEnd::stopped;
    }
    end_phase(session, watch.seconds());
  }
  return CampaignEnd::done;
}

// The report is for people; that it cannot be written is said, and does not fail a run that is
// done.
void write_report(Session& session) {
  if (!session.writers) {
    return;
  }
  try {
    write_file_atomically(session.run / "report.html", metrics::make_report(session.run));
  } catch (const std::exception& e) {
    session.log.warn(std::string("report.html: ") + e.what());
  }
}

}  // namespace

CampaignEnd run_campaign(comm::World& world, const CampaignInput& input) {
  comm::collectively(world.group(), "launcher", [&] {
    if (const auto mismatch = comm::launcher_mismatch(comm::process_environment(), world.size())) {
      throw Error(Code::usage, *mismatch);
    }
  });
  const config::Campaign campaign = comm::collectively(world.group(), "config", [&] {
    return config::load_campaign(input.config, input.overrides);
  });
  check_same_config(world, campaign);
  const std::vector<std::string> found =
      comm::collectively(world.group(), "data", [&] { return data::check_data(campaign); });
  Start start = plan_start(world, campaign);

  FaultInjection none;
  Session session{.world = world,
                  .campaign = campaign,
                  .parallel = start.parallel,
                  .faults = input.faults != nullptr ? *input.faults : none,
                  .run = campaign.run.directory};
  session.faults.set_rank(world.rank());
  session.state = start.state;
  session.faults.set_step(session.state.step);
  session.stream =
      comm::collectively(world.group(), "device", [&] { return make_stream(campaign.run); });
  open_run(session, start, input);
  for (const std::string& line : found) {
    session.log.info(line);
  }
  for (const std::string& w :
       comm::launcher_warnings(comm::process_environment(), world.rank(), world.size())) {
    session.log.warn(w);
  }
  if (!world.warning().empty()) {
    warn(session, world.warning());
  }
  session.groups = world.make_mesh_groups(make_partition(session, {}).physical);
  session.arenas = std::make_shared<params::Arenas>();
  const bool is_over = session.state.phase >= campaign.phases.size();
  const bool shard = is_over || is_sharded(session.phase(), true);
  comm::collectively(world.group(), "memory", [&] { build_store(session, shard); });
  if (start.from) {
    load_parameters(session, *start.from);
  } else if (start.model_from) {
    load_parameters(session, *start.model_from);
    forget_slots(session);
  } else {
    session.store->initialise(session.state.contract.seed);
    session.store->pack(*session.stream);
  }
  announce(session, start);
  if (!session.faults.is_empty()) {
    checkpoint::test_hook = [&session](const char* point) { (void)session.faults.pass(point); };
  }
  if (start.from && session.state.phase > 0 && session.phase_step() == 0 &&
      !session.state.is_phase_begun) {
    keep_phase_end(session,
                   session.state.phase - 1,
                   start.from->path);  // a kill may have come between the two names
  }
  if (!start.from) {
    (void)save_checkpoint(
        session,
        CheckpointWhy::phase_end);  // step 0: a kill before the first interval loses nothing
  }
  const CampaignEnd end = run_phases(session);
  finish_checkpoint(session);
  if (!is_over) {  // a run that was over keeps the table of the attempt that ended it
    write_ranks(session);
  }
  if (session.writers) {
    session.writers->progress.finish();
  }
  note_event(
      session, end == CampaignEnd::done ? "finished" : "paused", {{"step", session.state.step}});
  write_report(session);
  if (session.writers && end == CampaignEnd::done) {
    session.writers->progress.line(metrics::make_summary(session.run));
  }
  checkpoint::test_hook = {};
  return end;
}

}  // namespace cambium::phases
