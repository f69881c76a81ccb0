// SPDX-License-Identifier: Apache-2.0
#include "phases/checkpointing.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "base/file.hpp"
#include "checkpoint/read.hpp"
#include "checkpoint/write.hpp"
#include "comm/collectively.hpp"
#include "kernels/elementwise.hpp"
#include "phases/free_keys.hpp"
#include "phases/phase.hpp"

namespace cambium::phases {
namespace {

using checkpoint::Array;
using checkpoint::ElementType;
using params::Bucket;
using params::Part;

constexpr const char* kKinds[] = {"/parameters/", "/optimizer/exp_avg/", "/optimizer/exp_avg_sq/"};

ElementType type_of(const Bucket& bucket) {
  return bucket.shape().dtype == device::DType::f64 ? ElementType::f64 : ElementType::f32;
}

// A run of whole grains of a part as rectangles of the parameter: matrix grains are rows.
checkpoint::Rectangle rectangle_of(const Part& p, Range elements) {
  if (p.spec.is_vector) {
    const dim_t first = p.cols.begin - p.offset;
    return {{0, 1}, {first + elements.begin, first + elements.end}};
  }
  const dim_t width = p.cols.size();
  if (width == 0) {
    return {};
  }
  const dim_t first = p.rows.begin + (elements.begin - p.offset) / width;
  const dim_t last = p.rows.begin + (elements.end - p.offset) / width;
  return {{first, last}, p.cols};
}

Range overlap(Range a, Range b) {
  const Range r{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return r.size() > 0 ? r : Range{a.begin, a.begin};
}

char* at(device::View v, dim_t element) {
  return static_cast<char*>(v.data) + static_cast<std::size_t>(element) * device::bytes_of(v.dtype);
}

// Visits (kind, part, elements of the bucket, memory of their first element) of what this rank
// holds of `kind`.
template <typename F>
void for_each_piece(const params::ParamStore& store, bool is_write, F&& visit) {
  for (const auto& b : store.buckets()) {
    if (is_write && b->shape().is_mirror) {
      continue;
    }
    for (const Part& p : b->parts()) {
      if (is_write && p.is_replicated() && store.partition().place.tensor != 0) {
        continue;
      }
      const Range written = overlap(p.range(), b->owned());
      const Range value = is_write ? written : p.range();
      if (value.size() > 0) {
        visit(0, *b, p, value, at(b->value(), value.begin));
      }
      const Range slot = is_write ? written : overlap(p.range(), b->held());
      if (slot.size() > 0) {
        visit(1, *b, p, slot, at(b->exp_avg(), slot.begin - b->held().begin));
        visit(2, *b, p, slot, at(b->exp_avg_sq(), slot.begin - b->held().begin));
      }
    }
  }
}

// Every array of the model. Step counts are known to the stage that holds the entity; they travel
// to all ranks.
std::vector<Array> list_arrays(Session& session) {
  const params::ParamStore& store = *session.store;
  std::vector<std::int64_t> updates(store.entities().size(), 0);
  for (std::size_t i = 0; i < store.entities().size(); ++i) {
    if (const Bucket* b = store.find(store.entities()[i].uid)) {
      updates[i] = b->parts().front().updates;
    }
  }
  session.groups.pipeline->all_reduce(std::span<std::int64_t>(updates), comm::Reduce::max);
  const ElementType type =
      store.shape().dtype == device::DType::f64 ? ElementType::f64 : ElementType::f32;
  std::vector<Array> arrays;
  for (const char* kind : kKinds) {
    for (std::size_t i = 0; i < store.entities().size(); ++i) {
      const model::Entity& e = store.entities()[i];
      for (const model::ParameterSpec& p : e.parameters) {
        arrays.push_back(
            {.name = kind + p.name,
             .type = type,
             .rows = p.rows,
             .cols = p.cols,
             .vector = p.is_vector,
             .attributes = {
                 {"uid", p.uid}, {"birth_step", e.birth.step}, {"updates", updates[i]}}});
      }
    }
  }
  return arrays;
}

// A second name for a complete checkpoint: hard links, published by one rename. No byte is copied.
void link_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::path partial = to;
  partial += ".partial";
  std::error_code ec;
  std::filesystem::remove_all(partial, ec);
  std::filesystem::create_directories(partial, ec);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (!ec) {
      std::filesystem::create_hard_link(entry.path(), partial / entry.path().filename(), ec);
    }
  }
  if (ec) {
    throw Error(
        Code::storage,
        fmt::format(
            "{}: cannot link the files of {}: {}", partial.string(), from.string(), ec.message()));
  }
  sync_folder(partial);
  std::filesystem::remove_all(to, ec);
  std::filesystem::rename(partial, to, ec);
  if (ec) {
    throw Error(Code::storage,
                fmt::format("{}: cannot rename into place: {}", to.string(), ec.message()));
  }
  sync_folder(to.parent_path());
}

}  // namespace

bool is_phase_end_kept(const config::Campaign& campaign, std::size_t index) {
  const std::string& name = campaign.phases[index].name;
  for (std::size_t i = index + 1; i < campaign.phases.size(); ++i) {
    if (campaign.phases[i].start_from == name) {
      return true;
    }
  }
  return index + 1 < campaign.phases.size() && campaign.phases[index + 1].kind() == "grow";
}

namespace {

checkpoint::WriteRequest make_request(Session& session) {
  checkpoint::WriteRequest request;
  request.folder = session.run / "checkpoints";
  request.step = session.state.step;
  request.run = session.campaign.run.name;
  request.arrays = list_arrays(session);
  for_each_piece(
      *session.store,
      true,
      [&](int kind, const Bucket& b, const Part& p, Range elements, char* data) {
        request.slices.push_back({.array = kKinds[kind] + p.spec.name,
                                  .type = type_of(b),
                                  .part = rectangle_of(p, elements),
                                  .data = data,
                                  .stride = p.spec.is_vector ? elements.size() : p.cols.size()});
      });
  const config::ParallelConfig& parallel = session.parallel;
  request.state = to_json(session.state,
                          {{"attempt", session.attempt},
                           {"host", session.world.host()},
                           {"time", metrics::utc_now()},
                           {"physical",
                            {{"tensor", parallel.tensor},
                             {"pipeline", parallel.pipeline},
                             {"context", parallel.context},
                             {"data", parallel.data}}},
                           {"stages", session.plans->stages().first},
                           {"keys", free_keys(session)}});
  const config::CheckpointConfig& keep = session.campaign.checkpoint;
  request.retention.keep_last = keep.keep_last;
  request.retention.keep_every = keep.keep_every;
  return request;
}

void note_checkpoint(Session& session,
                     CheckpointWhy why,
                     dim_t step,
                     const checkpoint::WriteResult& result,
                     double seconds,
                     const metrics::Fields& more) {
  for (const std::string& w : result.warnings) {
    session.log.warn(w);
  }
  constexpr const char* kWhy[] = {"interval", "phase_end", "growth", "stop"};
  metrics::Fields fields{{"step", step},
                         {"path", result.path.filename().string()},
                         {"why", kWhy[static_cast<int>(why)]},
                         {"bytes", result.bytes},
                         {"seconds", seconds}};
  fields.add_all(more);
  note_event(session, "checkpoint", fields);
}

void note_pending(Session& session) {
  const PendingCheckpoint& p = *session.pending;
  note_checkpoint(session,
                  CheckpointWhy::interval,
                  p.write.step(),
                  p.write.result(),
                  p.watch.seconds(),
                  {{"blocked_seconds", p.blocked}, {"whole_after_step", session.state.step}});
}

// Runs `act` on the checkpoint on its way, which is gone afterwards when it returned true or threw.
template <typename F>
void act_on_pending(Session& session, F&& act) {
  const metrics::Stopwatch watch;
  bool is_over = false;
  try {
    is_over = act(session.pending->write);
  } catch (...) {
    session.pending.reset();
    throw;
  }
  session.pending->blocked += watch.seconds();
  if (is_over) {
    note_pending(session);
    session.pending.reset();
  }
}

}  // namespace

std::filesystem::path save_checkpoint(Session& session, CheckpointWhy why) {
  finish_checkpoint(session);
  const checkpoint::WriteRequest request = make_request(session);
  const metrics::Stopwatch watch;
  const checkpoint::WriteResult result =
      checkpoint::write_checkpoint(session.world.group(), request);
  session.last_checkpoint_step = session.state.step;
  session.since_checkpoint.restart();
  note_checkpoint(session, why, session.state.step, result, watch.seconds(), {});
  return result.path;
}

void begin_checkpoint(Session& session) {
  const metrics::Stopwatch watch;
  finish_checkpoint(session);
  checkpoint::WriteRequest request = make_request(session);
  const std::size_t bytes = checkpoint::staging_bytes(request);
  comm::collectively(session.world.group(), "checkpoint: copy", [&] {
    if (session.staging.bytes() < bytes) {
      session.staging = {};  // never two of them
      session.staging = device::Buffer(bytes);
    }
  });
  if (!session.checkpoint_group) {
    session.checkpoint_group = session.world.duplicate("checkpoint");
  }
  session.pending = std::make_unique<PendingCheckpoint>(
      *session.checkpoint_group,
      std::move(request),
      std::span(static_cast<std::byte*>(session.staging.data()), bytes));
  session.pending->blocked = watch.seconds();
  session.last_checkpoint_step = session.state.step;
  session.since_checkpoint.restart();
}

void advance_checkpoint(Session& session, bool is_busy) {
  if (session.pending && !is_busy) {
    act_on_pending(session, [](checkpoint::BackgroundWrite& write) { return write.advance(); });
  }
}

void finish_checkpoint(Session& session) {
  if (session.pending) {
    act_on_pending(session, [](checkpoint::BackgroundWrite& write) {
      (void)write.finish();
      return true;
    });
  }
}

void keep_phase_end(Session& session, std::size_t index, const std::filesystem::path& from) {
  if (!is_phase_end_kept(session.campaign, index)) {
    return;
  }
  const std::string name = "phase-" + session.campaign.phases[index].name;
  const std::filesystem::path folder = session.run / "checkpoints";
  comm::collectively(session.world.group(), "keep phase end", [&] {
    if (session.world.rank() == 0) {
      link_checkpoint(from, folder / name);
    }
  });
}

void load_parameters(Session& session, const checkpoint::Checkpoint& from) {
  params::ParamStore& store = *session.store;
  std::vector<checkpoint::Target> targets;
  for_each_piece(
      store, false, [&](int kind, const Bucket& b, const Part& p, Range elements, char* data) {
        targets.push_back({.array = kKinds[kind] + p.spec.name,
                           .type = type_of(b),
                           .part = rectangle_of(p, elements),
                           .data = data,
                           .stride = p.spec.is_vector ? elements.size() : p.cols.size()});
      });
  comm::collectively(session.world.group(), "read checkpoint", [&] {
    for (const auto& b : store.buckets()) {
      for (Part& p : b->parts()) {
        const checkpoint::StoredArray& stored = from.at(kKinds[0] + p.spec.name);
        if (stored.array.rows != p.spec.rows || stored.array.cols != p.spec.cols) {
          throw Error(Code::bad_input,
                      fmt::format("{}: {}: the checkpoint holds {} x {}, the model wants {} x {}",
                                  from.path.string(),
                                  p.spec.name,
                                  stored.array.rows,
                                  stored.array.cols,
                                  p.spec.rows,
                                  p.spec.cols));
        }
        p.updates = stored.array.attributes.at("updates").get<std::int64_t>();
      }
    }
    checkpoint::read_slices(from, targets);
  });
  store.pack(*session.stream);
}

checkpoint::Checkpoint open_model(const std::filesystem::path& from) {
  if (std::filesystem::exists(from / "config.json") &&
      !std::filesystem::exists(from / "manifest.json")) {
    throw Error(
        Code::usage,
        fmt::format("model.from: {} is a Hugging Face folder, expected a checkpoint; make one with "
                    "cambium import {} NEW_FOLDER",
                    from.string(),
                    from.string()));
  }
  return checkpoint::open_checkpoint(from);
}

model::Spec taken_over(const checkpoint::Checkpoint& from) {
  model::Spec spec = state_from_json(from.state()).spec;
  const auto is_open = [&](const std::string& parameter) {
    return from.at(kKinds[0] + parameter).array.attributes.at("updates").get<std::int64_t>() > 0;
  };
  const auto open_blocks = [&](const std::string& module,
                               std::vector<model::InsertedBlock>& blocks) {
    for (std::size_t m = 0; m < blocks.size(); ++m) {
      blocks[m].born_closed =
          blocks[m].born_closed && !is_open(fmt::format("{}.inserted.{}.gate", module, m));
      blocks[m].birth = {};
    }
  };
  open_blocks("embedding", spec.after_embedding);
  open_blocks("norm", spec.after_norm);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    model::LayerSpec& l = spec.layers[i];
    l.born_closed = l.born_closed && !is_open(fmt::format("layers.{}.attention.o.weight", i));
    l.birth = {};
    for (int m = 0; m < model::kLayerModules; ++m) {
      open_blocks(fmt::format("layers.{}.{}", i, name_of(static_cast<model::LayerModule>(m))),
                  l.inserted[m]);
    }
  }
  return spec;
}

void forget_slots(Session& session) {
  for (const auto& b : session.store->buckets()) {
    for (const device::View v : {b->exp_avg(), b->exp_avg_sq()}) {
      kernels::fill_zero(*session.stream, v);
    }
    for (Part& p : b->parts()) {
      p.updates = 0;
    }
  }
}

void start_from_phase(Session& session, const std::string& phase, bool is_sharded) {
  const std::string name = "phase-" + phase;
  const checkpoint::Checkpoint from =
      checkpoint::open_checkpoint(session.world.group(), session.run / "checkpoints" / name);
  session.state.spec = state_from_json(from.state()).spec;
  build_store(session, is_sharded);
  load_parameters(session, from);
  note_event(session,
             "started_from",
             {{"phase", session.phase().name}, {"from", phase}, {"checkpoint", name}});
}

}  // namespace cambium::phases
