// data/text_set.hpp — texts of fixed length for classification, and their strong view.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::data {

struct Text {
  std::string bytes;
  std::int32_t label = -1;  // -1: none
  std::uint64_t uid = 0;    // line in its file: the same text under any choice of subset
};

// A batch of B texts, position-major; the caller's memory.
struct TextBatch {
  std::span<std::int32_t> ids;  // (T*B): bytes, cut at T, padded at the end with config::kPadId
  std::span<std::int32_t>
      last;  // (B): position t of the last byte that is seen; 0 for an empty text
  std::span<std::int32_t> labels;  // (B): -1 where there is none; may be empty when nobody asks
};

class TextSet {
 public:
  explicit TextSet(std::vector<Text> texts);

  [[nodiscard]] dim_t size() const {
    return static_cast<dim_t>(texts_.size());
  }

  [[nodiscard]] const Text& at(dim_t i) const {
    return texts_[static_cast<std::size_t>(i)];
  }

  // Writes the texts `samples` (B of them) as columns 0 … B-1. A sample of -1 is an empty text
  // without label (a batch's unused place). sequence_length is T.
  void fill(std::span<const dim_t> samples, dim_t sequence_length, const TextBatch& batch) const;

 private:
  std::vector<Text> texts_;
};

struct StrongMask {
  std::uint64_t seed = 0;
  dim_t step = 0;  // update of the campaign
  double probability = 0;
};

// Replaces each seen byte of text b (positions 0 … last[b]) by config::kMaskId with the
// probability. The number for it is keyed by (seed, Purpose::augment, step, uid of the text,
// position): equal on every layout.
void mask_strongly(const StrongMask& mask,
                   std::span<const std::uint64_t> uids,  // (B)
                   dim_t sequence_length,
                   const TextBatch& batch);

}  // namespace cambium::data
