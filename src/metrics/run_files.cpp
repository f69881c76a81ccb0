// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_files.hpp"

#include "base/file.hpp"

namespace cambium::metrics {

void write_timeline(const std::filesystem::path& run,
                    dim_t step,
                    const std::vector<RankTimeline>& ranks) {
  std::vector<Fields> rows;
  for (const RankTimeline& rank : ranks) {
    std::vector<Fields> actions;
    for (const TracedAction& action : rank.actions) {
      actions.push_back({{"kind", action.kind},
                         {"micro_batch", action.micro_batch},
                         {"chunk", action.chunk},
                         {"begin_us", action.begin_us},
                         {"end_us", action.end_us}});
    }
    rows.push_back({{"rank", rank.rank},
                    {"stage", rank.stage},
                    {"tensor", rank.tensor},
                    {"data", rank.data},
                    {"actions", to_json_list(actions)}});
  }
  write_file_atomically(run / "timeline.json",
                        to_json(Fields{{"step", step}, {"ranks", to_json_list(rows)}}) + "\n");
}

void write_ranks(const std::filesystem::path& run, const std::vector<Fields>& ranks) {
  write_file_atomically(run / "ranks.json", to_json_list(ranks).text + "\n");
}

}  // namespace cambium::metrics
