// SPDX-License-Identifier: Apache-2.0
#include "phases/classification.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "data/json_lines.hpp"
#include "data/token.hpp"

namespace cambium::phases {
namespace {

// Counts right answers of forward-only micro-batches by local data shard.
class CountCorrect : public engine::ClassifyTask {
 public:
  CountCorrect(engine::Engine& engine, const std::vector<TextMicroBatch>& batches, dim_t shards)
      : engine_(engine), batches_(batches), counts_(static_cast<std::size_t>(2 * shards), 0.0) {}

  void run(std::size_t index,
           const engine::MicroBatch& batch,
           device::View h,
           device::View) override {
    const auto scores = engine_.model().classifier->score(h, batch.last_row);
    const std::vector<std::int32_t>& labels = batches_[index].labels;
    for (std::size_t b = 0; b < labels.size(); ++b) {
      if (labels[b] >= 0) {
        counts_[static_cast<std::size_t>(2 * batch.data_shard)] +=
            scores.predicted[b] == labels[b] ? 1 : 0;
        counts_[static_cast<std::size_t>(2 * batch.data_shard + 1)] += 1;
      }
    }
  }

  [[nodiscard]] const std::vector<double>& counts() const {
    return counts_;
  }

 private:
  engine::Engine& engine_;
  const std::vector<TextMicroBatch>& batches_;
  std::vector<double> counts_;
};

}  // namespace

TextMicroBatch::TextMicroBatch(dim_t batch, dim_t sequence_length)
    : ids(static_cast<std::size_t>(batch * sequence_length)),
      last(static_cast<std::size_t>(batch)),
      labels(static_cast<std::size_t>(batch)),
      uids(static_cast<std::size_t>(batch)) {}

data::TextBatch TextMicroBatch::view() {
  return {ids, last, labels};
}

void TextMicroBatch::fill(const data::TextSet& texts,
                          std::span<const dim_t> samples,
                          dim_t sequence_length) {
  texts.fill(samples, sequence_length, view());
  for (std::size_t b = 0; b < samples.size(); ++b) {
    uids[b] = samples[b] >= 0 ? texts.at(samples[b]).uid : 0;
  }
}

std::vector<dim_t> TextMicroBatch::last_rows() const {
  std::vector<dim_t> rows;
  const auto batch = static_cast<dim_t>(last.size());
  for (dim_t b = 0; b < batch; ++b) {
    rows.push_back(static_cast<dim_t>(last[static_cast<std::size_t>(b)]) * batch + b);
  }
  return rows;
}

Accuracy accuracy_on(Session& session,
                     const data::TextSet& texts,
                     dim_t sequence_length,
                     dim_t global_batch_size,
                     dim_t batches,
                     const std::function<bool()>& is_over) {
  const State& state = session.state;
  const dim_t micro = state.contract.micro_batch_size;
  const data::BatchShape shape{global_batch_size, micro, state.contract.logical.data};
  engine::Engine& engine = engine_for(session, sequence_length);
  const Range shards = session.store->partition().data_shards();
  const dim_t per_shard = shape.micro_batches_per_shard();
  const dim_t all = ceil_div(texts.size(), global_batch_size);
  std::vector<TextMicroBatch> memory(static_cast<std::size_t>(per_shard * shards.size()),
                                     TextMicroBatch(micro, sequence_length));
  Accuracy total;
  for (dim_t g = 0; g < (batches > 0 ? std::min(batches, all) : all); ++g) {
    session.faults.pass("evaluate");
    if (is_over && is_over()) {
      total.is_stopped = true;
      break;
    }
    std::vector<engine::MicroBatch> list;
    for (dim_t i = 0; i < static_cast<dim_t>(memory.size()); ++i) {
      const Range places = shape.samples(shards.begin + i / per_shard, i % per_shard);
      std::vector<dim_t> samples;
      for (dim_t p = places.begin; p < places.end; ++p) {
        const dim_t sample = g * global_batch_size + p;
        samples.push_back(sample < texts.size() ? sample : -1);
      }
      TextMicroBatch& m = memory[static_cast<std::size_t>(i)];
      m.fill(texts, samples, sequence_length);
      list.push_back({.mode = layers::Mode::forward_only,
                      .task = engine::Task::classify,
                      .data_shard = i / per_shard,
                      .ids = device::view_of(m.ids.data(), static_cast<dim_t>(m.ids.size())),
                      .last_row = m.last_rows()});
    }
    if (session.watchdog) {
      session.watchdog->beat(state.step, "accuracy");
    }
    CountCorrect count(engine, memory, shards.size());
    engine::PassHooks hooks;
    hooks.classify = &count;
    (void)engine.run(list, hooks);
    const std::vector<double> sums = engine.sum_over_data(count.counts(), 2);
    total.correct += static_cast<dim_t>(sums[0]);
    total.samples += static_cast<dim_t>(sums[1]);
  }
  return total;
}

Accuracy accuracy_on_texts(Session& session,
                           const std::filesystem::path& path,
                           dim_t sequence_length,
                           dim_t global_batch_size,
                           dim_t batches,
                           const std::function<bool()>& is_over) {
  if (session.state.spec.classifier_uid == 0) {
    throw Error(Code::usage,
                session.phase().name +
                    ": task accuracy: the model has no classifier; an mtssl phase makes one");
  }
  const data::LabelSet labels(session.state.labels);
  std::vector<data::Text> texts;
  for (const data::TextRecord& r : data::read_json_lines(path, data::Labels::required).records) {
    const std::int32_t label = labels.index_of(r.label);
    if (label >= 0) {
      texts.push_back({.bytes = r.text, .label = label, .uid = static_cast<std::uint64_t>(r.line)});
    }
  }
  return accuracy_on(session,
                     data::TextSet(std::move(texts)),
                     sequence_length,
                     global_batch_size,
                     batches,
                     is_over);
}

}  // namespace cambium::phases
