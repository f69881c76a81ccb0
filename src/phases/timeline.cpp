// SPDX-License-Identifier: Apache-2.0
#include "phases/timeline.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "metrics/run_files.hpp"
#include "schedule/schedule.hpp"

namespace cambium::phases {

using nlohmann::json;

std::vector<std::string> gather_texts(comm::Group& group, const std::string& mine) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()), 0);
  lengths[static_cast<std::size_t>(group.rank())] = static_cast<std::int64_t>(mine.size());
  group.all_reduce(std::span<std::int64_t>(lengths), comm::Reduce::sum);
  std::vector<std::size_t> bytes;
  std::size_t total = 0;
  for (const std::int64_t n : lengths) {
    bytes.push_back(static_cast<std::size_t>(n));
    total += static_cast<std::size_t>(n);
  }
  std::string all(total, '\0');
  group.all_gather(mine.data(), bytes, all.data());
  std::vector<std::string> texts;
  if (group.rank() == 0) {
    std::size_t at = 0;
    for (const std::size_t n : bytes) {
      texts.push_back(all.substr(at, n));
      at += n;
    }
  }
  return texts;
}

void write_timeline(Session& session, const std::vector<engine::TracedAction>& actions) {
  const params::Partition& where = session.store->partition();
  json mine = {{"stage", where.place.pipeline},
               {"tensor", where.place.tensor},
               {"data", where.place.data},
               {"actions", json::array()}};
  for (const engine::TracedAction& a : actions) {
    mine["actions"].push_back({std::string(schedule::name_of(a.kind)),
                               a.micro_batch,
                               a.begin * 1e6,
                               a.end * 1e6,
                               a.chunk});
  }
  const std::vector<std::string> texts = gather_texts(session.world.group(), mine.dump());
  if (!session.writers) {
    return;
  }
  std::vector<metrics::RankTimeline> ranks;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const json j = json::parse(texts[r]);
    metrics::RankTimeline rank{.rank = static_cast<int>(r),
                               .stage = j["stage"],
                               .tensor = j["tensor"],
                               .data = j["data"],
                               .actions = {}};
    for (const json& a : j["actions"]) {
      rank.actions.push_back({a[0], a[1], a[2], a[3], a[4]});
    }
    ranks.push_back(rank);
  }
  metrics::write_timeline(session.run, session.state.step, ranks);
}

void write_ranks(Session& session) {
  const params::Partition& where = session.store->partition();
  const params::Arenas& arenas = *session.arenas;
  const device::Counters& counters = session.stream->counters();
  const json mine = {{"host", session.world.host()},
                     {"stage", where.place.pipeline},
                     {"tensor", where.place.tensor},
                     {"data", where.place.data},
                     {"parameter_bytes", session.store->parameter_bytes()},
                     {"params_arena_bytes", arenas.params.live_bytes()},
                     {"optimizer_bytes", arenas.optimizer.live_bytes()},
                     {"gradient_bytes", arenas.grads.live_bytes()},
                     {"activation_bytes", arenas.activations.live_bytes()},
                     {"product_flops", counters.product_flops},
                     {"attention_flops", counters.attention_flops},
                     {"bytes_sent_tensor", session.groups.tensor->bytes_sent()},
                     {"bytes_sent_pipeline", session.groups.pipeline->bytes_sent()},
                     {"bytes_sent_data", session.groups.data->bytes_sent()}};
  const std::vector<std::string> texts = gather_texts(session.world.group(), mine.dump());
  if (!session.writers) {
    return;
  }
  std::vector<metrics::Fields> rows;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const json j = json::parse(texts[r]);
    metrics::Fields row{{"rank", r}};
    std::int64_t sent = 0;
    for (const auto& [key, value] : j.items()) {
      if (value.is_string()) {
        row.add(key, value.get<std::string>());
      } else {
        row.add(key, value.get<std::int64_t>());
      }
      if (key.rfind("bytes_sent", 0) == 0) {
        sent += value.get<std::int64_t>();
      }
    }
    row.add("bytes_sent", sent);
    rows.push_back(row);
  }
  metrics::write_ranks(session.run, rows);
}

}  // namespace cambium::phases
