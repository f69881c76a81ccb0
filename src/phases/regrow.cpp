// SPDX-License-Identifier: Apache-2.0
#include "phases/regrow.hpp"

#include <set>

#include "base/error.hpp"

namespace cambium::phases {
namespace {

using device::View;
using params::Bucket;

constexpr int kMoveTag = 7100;

struct Piece {
  void* data;
  std::size_t bytes;
};

std::vector<Piece> pieces_of(Bucket& b, std::vector<std::int64_t>& updates) {
  std::vector<Piece> pieces;
  for (const View v : {b.value(), b.exp_avg(), b.exp_avg_sq()}) {
    pieces.push_back({v.data, static_cast<std::size_t>(v.size()) * device::bytes_of(v.dtype)});
  }
  pieces.push_back({updates.data(), updates.size() * sizeof(std::int64_t)});
  return pieces;
}

void send_bucket(comm::Group& pipeline, Bucket& b, int to) {
  std::vector<std::int64_t> updates;
  for (const params::Part& p : b.parts()) {
    updates.push_back(p.updates);
  }
  std::vector<comm::Request> requests;
  for (const Piece& piece : pieces_of(b, updates)) {
    requests.push_back(pipeline.send(piece.data, piece.bytes, to, kMoveTag));
  }
  for (comm::Request& r : requests) {
    r.wait();
  }
}

std::int64_t receive_bucket(comm::Group& pipeline, Bucket& b, int from) {
  std::vector<std::int64_t> updates(b.parts().size());
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_of(b, updates)) {
    pipeline.receive(piece.data, piece.bytes, from, kMoveTag).wait();
    bytes += static_cast<std::int64_t>(piece.bytes);
  }
  for (std::size_t i = 0; i < updates.size(); ++i) {
    b.parts()[i].updates = updates[i];
  }
  return bytes;
}

std::set<std::uint64_t> uids_of(const params::ParamStore& store) {
  std::set<std::uint64_t> uids;
  for (const model::Entity& e : store.entities()) {
    uids.insert(e.uid);
  }
  return uids;
}

}  // namespace

Regrown prepare_store(const Session& session, const model::Spec& spec) {
  const params::ParamStore& old = *session.store;
  Regrown result;
  result.store = std::make_unique<params::ParamStore>(
      old.regrown(spec, make_partition(session, session.plans->stages())));
  const std::set<std::uint64_t> kept = uids_of(old);
  for (const auto& b : result.store->buckets()) {
    if (kept.count(b->uid()) == 0) {
      b->initialise(session.state.contract.seed);
      result.bytes_new += static_cast<std::int64_t>(b->state_bytes());
    }
  }
  return result;
}

void move_entities(Session& session, Regrown& result) {
  const params::ParamStore& old = *session.store;
  const params::Partition& where = result.store->partition();
  const std::set<std::uint64_t> kept = uids_of(old);
  // Entities in order of execution on every rank, so sends and receives of a pair meet.
  comm::Group& pipeline = *session.groups.pipeline;
  for (const model::Entity& e : result.store->entities()) {
    if (kept.count(e.uid) == 0) {
      continue;
    }
    dim_t old_layer = 0;
    for (const model::Entity& o : old.entities()) {
      if (o.uid == e.uid) {
        old_layer = o.layer;
      }
    }
    const int from = old.partition().stages.stage_of(old_layer);
    const int to = where.stages.stage_of(e.layer);
    if (from == to) {
      continue;
    }
    if (pipeline.rank() == from) {
      send_bucket(pipeline, *old.find(e.uid), to);
    } else if (pipeline.rank() == to) {
      result.bytes_moved += receive_bucket(pipeline, *result.store->find(e.uid), from);
    }
  }
  result.store->pack(*session.stream);
}

void adopt(Session& session, const model::Spec& spec, Regrown regrown) {
  session.engines.clear();
  session.store = std::move(regrown.store);
  session.store->take_names();
  session.store->check_invariants();
  session.state.spec = spec;
  session.plans->commit();
}

}  // namespace cambium::phases
