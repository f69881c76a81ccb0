// SPDX-License-Identifier: Apache-2.0
#include "phases/resume.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <span>
#include <sstream>

#include "base/file.hpp"
#include "comm/collectively.hpp"
#include "config/check_campaign.hpp"
#include "config/resolve_parallel.hpp"
#include "config/words.hpp"
#include "growth/operation.hpp"
#include "model/stages.hpp"
#include "phases/checkpointing.hpp"
#include "phases/phase.hpp"
#include "phases/phase_text.hpp"

namespace cambium::phases {
namespace {

Contract contract_of(const config::Campaign& campaign, const config::ParallelConfig& parallel) {
  Contract c;
  c.logical = {parallel.logical.tensor, 1, parallel.logical.data};
  c.micro_batch_size = parallel.micro_batch_size;
  c.precision = config::word_of(campaign.run.precision);
  c.reduction = parallel.reduction == config::Reduction::fast ? "fast" : "exact";
  c.seed = campaign.run.seed;
  return c;
}

checkpoint::Latest find_start(comm::World& world, const config::Campaign& campaign) {
  const std::filesystem::path folder =
      std::filesystem::path(campaign.run.directory) / "checkpoints";
  checkpoint::Latest latest = checkpoint::find_latest(world.group(), folder);
  comm::collectively(world.group(), "resume", [&] {
    if (campaign.run.resume == config::Resume::must && !latest.checkpoint) {
      throw Error(Code::usage,
                  "run.resume: must, but there is no checkpoint in " + folder.string());
    }
    if (campaign.run.resume == config::Resume::never && latest.checkpoint) {
      throw Error(Code::usage,
                  "run.resume: never, but " + folder.string() + " holds " +
                      latest.checkpoint->path.filename().string() +
                      "; use another run.directory, or resume: auto");
    }
  });
  return latest;
}

// A phase that has begun stays as it was; what lies ahead may change.
void check_phases(const config::Campaign& campaign, const State& state, const DataNames& names) {
  for (std::size_t i = 0; i < state.phases.size(); ++i) {
    const std::string now = i < campaign.phases.size() ? phase_text(campaign, i, names) : "(gone)";
    if (now != state.phases[i]) {
      throw Error(Code::usage,
                  fmt::format("phases.{}: it has begun and may not change over a restart; the "
                              "checkpoint has\n{}\nthe config "
                              "has\n{}",
                              i,
                              state.phases[i],
                              now));
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
  return lines;
}

// A begun campaign keeps the model that it began with: the checkpoint's is loaded, so another one
// in the file would be passed over in silence.
void check_model(const config::Campaign& campaign, const State& state) {
  const std::string now = model_text(campaign);
  if (state.model == now) {
    return;
  }
  const std::vector<std::string> before = lines_of(state.model);
  const std::vector<std::string> after = lines_of(now);
  std::string differences;
  for (const std::string& line : after) {
    if (std::find(before.begin(), before.end(), line) == before.end()) {
      const std::string key = line.substr(0, line.find(':') + 1);
      const auto old = std::find_if(before.begin(), before.end(), [&](const std::string& l) {
        return l.compare(0, key.size(), key) == 0;
      });
      differences += fmt::format("{}the file has {}, the checkpoint began with {}",
                                 differences.empty() ? "" : "; ",
                                 line,
                                 old == before.end() ? "none" : *old);
    }
  }
  throw Error(Code::usage,
              fmt::format("model: it may not change over a restart: {} ({} layers now); a model "
                          "that has begun grows by phases of kind grow",
                          differences.empty() ? "keys were taken out" : differences,
                          state.spec.layers.size()));
}

// The sizes of a `from:` model or a running one, so that divisibility is checked against what is
// there.
void take_sizes(config::ModelConfig& model, const model::Spec& spec) {
  const model::LayerSpec& l = spec.layers.front();
  model.hidden_size = spec.hidden;
  model.num_hidden_layers = static_cast<dim_t>(spec.layers.size());
  model.num_attention_heads = l.heads;
  model.num_key_value_heads = l.kv_heads;
}

}  // namespace

void check_positions(const config::Campaign& campaign, const model::Spec& spec) {
  for (std::size_t i = 0; spec.positions_uid != 0 && i < campaign.phases.size(); ++i) {
    const dim_t length = config::sequence_length(campaign.phases[i]);
    if (length > spec.max_positions) {
      throw Error(Code::usage,
                  fmt::format("{}: {}.sequence_length: {}, expected at most the {} positions that "
                              "the model of the checkpoint has learned",
                              campaign.places.of(config::phase_path(campaign, i)),
                              config::phase_path(campaign, i),
                              length,
                              spec.max_positions));
    }
  }
}

Start plan_start(comm::World& world, const config::Campaign& campaign) {
  const checkpoint::Latest latest = find_start(world, campaign);
  const State saved = comm::collectively(world.group(), "state", [&] {
    return latest.checkpoint ? state_from_json(latest.checkpoint->state()) : State{};
  });
  const DataNames names = name_data(
      world.group(),
      std::span(campaign.phases).first(std::min(saved.phases.size(), campaign.phases.size())));
  return comm::collectively(world.group(), "start", [&] {
    Start start;
    start.warnings = latest.warnings;
    start.from = latest.checkpoint;
    start.state = saved;
    config::Campaign effective = campaign;
    if (start.from) {
      const Contract& c = start.state.contract;
      if (effective.parallel.logical.tensor == config::kAuto) {
        effective.parallel.logical.tensor = c.logical.tensor;
      }
      if (effective.parallel.logical.data == config::kAuto) {
        effective.parallel.logical.data = c.logical.data;
      }
      take_sizes(effective.model, start.state.spec);
      start.from_keys = start.from->state().at("free").value("keys", nlohmann::json::object());
      const auto& free = start.from->state().at("free").at("physical");
      start.from_layout = fmt::format("{}x{}x{}x{}",
                                      free.at("tensor").get<int>(),
                                      free.at("pipeline").get<int>(),
                                      free.at("context").get<int>(),
                                      free.at("data").get<int>());
      check_model(campaign, start.state);
      check_phases(campaign, start.state, names);
    } else {
      start.state.model = model_text(campaign);
    }
    std::optional<checkpoint::Checkpoint> model_from;
    if (!start.from && campaign.model.from) {
      model_from = open_model(*campaign.model.from);
      take_sizes(effective.model, state_from_json(model_from->state()).spec);
    }
    start.parallel = config::resolve_parallel(effective, world.size());
    const Contract wanted = contract_of(campaign, start.parallel);
    if (start.from) {
      check_contract(start.state.contract, wanted, start.from->path.string());
    } else {
      start.state.contract = wanted;
      start.state.spec = model_from
                             ? taken_over(*model_from)
                             : model::make_spec(campaign.model, config::vocabulary_size(campaign));
      start.model_from = model_from;
    }
    check_positions(campaign, start.state.spec);
    (void)model::plan_stages(
        start.state.spec,
        start.parallel.pipeline,
        start.state.revision == 0 ? start.parallel.stages : std::vector<dim_t>{},
        start.parallel.virtual_stages);
    // Growth phases to come must apply, here and not in a week.
    model::Spec spec = start.state.spec;
    for (std::size_t i = start.state.phase; i < campaign.phases.size(); ++i) {
      if (const auto* grow = std::get_if<config::GrowPhase>(&campaign.phases[i].settings)) {
        spec = growth::grow(spec, grow->operations, 0);
      }
    }
    return start;
  });
}

namespace {

// Names of the phases that have made no update yet.
std::set<std::string> phases_to_start(const Session& session) {
  std::set<std::string> names;
  const std::size_t first = session.state.phase + (session.phase_step() > 0 ? 1 : 0);
  for (std::size_t i = first; i < session.campaign.phases.size(); ++i) {
    names.insert(session.campaign.phases[i].name);
  }
  return names;
}

}  // namespace

void open_run(Session& session, Start& start, const CampaignInput& input) {
  comm::World& world = session.world;
  const std::filesystem::path run = session.run;
  std::vector<std::int64_t> attempt = {0};
  comm::collectively(world.group(), "run directory", [&] {
    if (world.rank() != 0) {
      return;
    }
    std::error_code ec;
    std::filesystem::create_directories(run / "checkpoints", ec);
    if (ec) {
      throw Error(Code::storage,
                  run.string() + ": cannot create the run directory: " + ec.message());
    }
    const char* job = std::getenv("SLURM_JOB_ID");  // names the owner in the lock, nothing else
    session.lock = std::make_unique<checkpoint::RunLock>(run, job != nullptr ? job : "");
    if (!session.lock->stale_owner().empty()) {
      start.warnings.push_back("lock: its last owner (" + session.lock->stale_owner() +
                               ") died without releasing it");
    }
    attempt[0] = metrics::next_attempt(run);
    const auto number = static_cast<int>(attempt[0]);
    const std::filesystem::path folder = metrics::make_attempt_folder(run, number);
    session.log = metrics::Log(run, number);
    metrics::ProgressOptions progress;
    progress.live = metrics::is_live(input.progress, !world.is_alone(), metrics::is_terminal(1));
    progress.attempt = number;
    session.writers.emplace(run, number, progress);
    start.lines_cut =
        session.writers->metrics.cut_after(start.state.step, folder, phases_to_start(session));
    write_file_atomically(run / "config.yaml", config::resolved_yaml(session.campaign));
  });
  world.group().broadcast(attempt.data(), sizeof(std::int64_t), 0);
  session.attempt = static_cast<int>(attempt[0]);
  const std::filesystem::path folder = run / fmt::format("attempt-{}", session.attempt);
  if (input.attempt_folder != nullptr) {
    *input.attempt_folder = folder;
  }
  const auto limit =
      std::chrono::seconds(static_cast<std::int64_t>(session.campaign.run.watchdog_seconds));
  session.watchdog = std::make_unique<comm::Watchdog>(world.rank(), world.host(), folder, limit);
}

void reshape_store(Session& session, bool is_sharded) {
  const params::ParamStore& old = *session.store;
  params::StoreShape shape = old.shape();
  shape.is_sharded = is_sharded;
  auto next = std::make_unique<params::ParamStore>(
      session.state.spec, old.partition(), shape, session.arenas);
  comm::Group& data = *session.groups.data;
  for (std::size_t i = 0; i < next->buckets().size(); ++i) {
    params::Bucket& from = *old.buckets()[i];
    params::Bucket& to = *next->buckets()[i];
    const std::size_t element = device::bytes_of(shape.dtype);
    std::memcpy(
        to.value().data, from.value().data, static_cast<std::size_t>(from.elements()) * element);
    for (std::size_t p = 0; p < to.parts().size(); ++p) {
      to.parts()[p].updates = from.parts()[p].updates;
    }
    std::vector<std::size_t> bytes;
    for (int r = 0; r < data.size(); ++r) {
      bytes.push_back(static_cast<std::size_t>(from.owned_by(r, data.size()).size()) * element);
    }
    for (const bool is_first : {true, false}) {
      const device::View source = is_first ? from.exp_avg() : from.exp_avg_sq();
      const device::View target = is_first ? to.exp_avg() : to.exp_avg_sq();
      if (is_sharded) {  // all elements are here: keep the owned ones
        const device::View owned = source.slice_cols(to.owned());
        std::memcpy(target.data, owned.data, static_cast<std::size_t>(owned.cols) * element);
      } else {
        data.all_gather(source.data, bytes, target.data);
      }
    }
  }
  session.engines.clear();
  session.store = std::move(next);
  session.store->pack(*session.stream);
}

}  // namespace cambium::phases
