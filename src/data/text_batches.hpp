// data/text_batches.hpp — micro-batches of next-token training and of its validation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/campaign.hpp"
#include "data/sampler.hpp"
#include "data/text_corpus.hpp"

namespace cambium::data {

// A pretrain phase's corpora under its sampler.
class TextBatches {
 public:
  // Throws as TextCorpus::open; Error(bad_input) when the sources together have fewer samples than
  // one global batch.
  TextBatches(const config::PretrainPhase& phase, std::uint64_t seed);

  // Writes samples `range` of the global batch of `step` (from 1, over the whole campaign): ids and
  // targets (T*B) position-major, B = range.size(). Returns the valid tokens, T*B.
  dim_t fill(dim_t step,
             Range range,
             std::span<std::int32_t> ids,
             std::span<std::int32_t> targets) const;

  [[nodiscard]] dim_t sequence_length() const {
    return sequence_length_;
  }

  // One line a corpus, for the log.
  [[nodiscard]] std::vector<std::string> describe() const;

 private:
  dim_t sequence_length_;
  std::vector<TextCorpus> corpora_;
  Sampler sampler_;
};

// A text in its own order, for validation and evaluation.
class OrderedText {
 public:
  // batches 0: as many as hold every window. Throws as TextCorpus::open.
  OrderedText(const std::filesystem::path& path,
              dim_t sequence_length,
              dim_t global_batch_size,
              dim_t batches);

  [[nodiscard]] dim_t batches() const {
    return batches_;
  }

  // Samples `range` of batch `batch` (from 0). A sample behind the last window has ids 0 and
  // targets kIgnoreTarget. Returns the valid tokens.
  dim_t fill(dim_t batch,
             Range range,
             std::span<std::int32_t> ids,
             std::span<std::int32_t> targets) const;

  [[nodiscard]] dim_t sequence_length() const {
    return corpus_.windows().sequence_length;
  }

  // Valid tokens of a whole batch.
  [[nodiscard]] dim_t valid_tokens(dim_t batch) const;

 private:
  TextCorpus corpus_;
  dim_t global_batch_size_;
  dim_t batches_;
};

}  // namespace cambium::data
