// SPDX-License-Identifier: Apache-2.0
#include "data/text_batches.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"
#include "data/token.hpp"

namespace cambium::data {
namespace {

std::vector<TextCorpus> open_all(const config::PretrainPhase& phase) {
  std::vector<TextCorpus> corpora;
  for (const config::DataSource& source : phase.data) {
    corpora.push_back(TextCorpus::open(source.path, phase.sequence_length));
  }
  return corpora;
}

Sampler make_sampler(const config::PretrainPhase& phase,
                     const std::vector<TextCorpus>& corpora,
                     std::uint64_t seed) {
  std::vector<dim_t> samples;
  std::vector<double> weights;
  std::vector<std::string> paths;
  dim_t total = 0;
  for (std::size_t i = 0; i < corpora.size(); ++i) {
    samples.push_back(corpora[i].samples());
    weights.push_back(phase.data[i].weight);
    paths.push_back(corpora[i].path().string());
    total += samples.back();
  }
  if (total < phase.global_batch_size) {
    throw Error(
        Code::bad_input,
        fmt::format("{}: {} windows of {} + 1 tokens, expected at least global_batch_size {}",
                    fmt::join(paths, " + "),
                    total,
                    phase.sequence_length,
                    phase.global_batch_size));
  }
  return Sampler(seed, phase.global_batch_size, std::move(samples), std::move(weights));
}

}  // namespace

TextBatches::TextBatches(const config::PretrainPhase& phase, std::uint64_t seed)
    : sequence_length_(phase.sequence_length),
      corpora_(open_all(phase)),
      sampler_(make_sampler(phase, corpora_, seed)) {}

dim_t TextBatches::fill(dim_t step,
                        Range range,
                        std::span<std::int32_t> ids,
                        std::span<std::int32_t> targets) const {
  for (dim_t b = 0; b < range.size(); ++b) {
    const SampleId id = sampler_.at(step, range.begin + b);
    corpora_[static_cast<std::size_t>(id.source)].fill(id.sample, b, range.size(), ids, targets);
  }
  return sequence_length_ * range.size();
}

std::vector<std::string> TextBatches::describe() const {
  std::vector<std::string> lines;
  for (const TextCorpus& corpus : corpora_) {
    lines.push_back(corpus.describe());
  }
  return lines;
}

OrderedText::OrderedText(const std::filesystem::path& path,
                         dim_t sequence_length,
                         dim_t global_batch_size,
                         dim_t batches)
    : corpus_(TextCorpus::open(path, sequence_length)),
      global_batch_size_(global_batch_size),
      batches_(ceil_div(corpus_.samples(), global_batch_size)) {
  if (batches > 0) {
    batches_ = std::min(batches, batches_);
  }
}

dim_t OrderedText::fill(dim_t batch,
                        Range range,
                        std::span<std::int32_t> ids,
                        std::span<std::int32_t> targets) const {
  const dim_t length = sequence_length();
  dim_t valid = 0;
  for (dim_t b = 0; b < range.size(); ++b) {
    const dim_t sample = batch * global_batch_size_ + range.begin + b;
    if (sample < corpus_.samples()) {
      corpus_.fill(sample, b, range.size(), ids, targets);
      valid += length;
      continue;
    }
    for (dim_t t = 0; t < length; ++t) {
      const auto row = static_cast<std::size_t>(t * range.size() + b);
      ids[row] = 0;
      targets[row] = kIgnoreTarget;
    }
  }
  return valid;
}

dim_t OrderedText::valid_tokens(dim_t batch) const {
  const dim_t first = batch * global_batch_size_;
  const dim_t samples = std::clamp<dim_t>(corpus_.samples() - first, 0, global_batch_size_);
  return samples * sequence_length();
}

}  // namespace cambium::data
