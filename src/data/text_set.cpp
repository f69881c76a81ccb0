// SPDX-License-Identifier: Apache-2.0
#include "data/text_set.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "config/campaign.hpp"

namespace cambium::data {
namespace {

void check_sizes(dim_t texts, dim_t sequence_length, const TextBatch& batch) {
  CAMBIUM_CHECK(static_cast<dim_t>(batch.ids.size()) == texts * sequence_length &&
                    static_cast<dim_t>(batch.last.size()) == texts,
                "a batch of another size");
}

}  // namespace

TextSet::TextSet(std::vector<Text> texts) : texts_(std::move(texts)) {}

void TextSet::fill(std::span<const dim_t> samples,
                   dim_t sequence_length,
                   const TextBatch& batch) const {
  const auto columns = static_cast<dim_t>(samples.size());
  check_sizes(columns, sequence_length, batch);
  for (dim_t b = 0; b < columns; ++b) {
    const dim_t sample = samples[static_cast<std::size_t>(b)];
    CAMBIUM_CHECK(sample >= -1 && sample < size(), "no such text");
    const std::string_view bytes =
        sample < 0 ? std::string_view() : std::string_view(at(sample).bytes);
    const dim_t seen = std::min(static_cast<dim_t>(bytes.size()), sequence_length);
    for (dim_t t = 0; t < sequence_length; ++t) {
      batch.ids[static_cast<std::size_t>(t * columns + b)] =
          t < seen ? static_cast<unsigned char>(bytes[static_cast<std::size_t>(t)])
                   : static_cast<std::int32_t>(config::kPadId);
    }
    batch.last[static_cast<std::size_t>(b)] =
        static_cast<std::int32_t>(std::max<dim_t>(seen - 1, 0));
    if (!batch.labels.empty()) {
      batch.labels[static_cast<std::size_t>(b)] = sample < 0 ? -1 : at(sample).label;
    }
  }
}

void mask_strongly(const StrongMask& mask,
                   std::span<const std::uint64_t> uids,
                   dim_t sequence_length,
                   const TextBatch& batch) {
  const auto columns = static_cast<dim_t>(uids.size());
  check_sizes(columns, sequence_length, batch);
  for (dim_t b = 0; b < columns; ++b) {
    const RandomStream numbers(mask.seed,
                               Purpose::augment,
                               static_cast<std::uint64_t>(mask.step),
                               uids[static_cast<std::size_t>(b)]);
    for (dim_t t = 0; t <= batch.last[static_cast<std::size_t>(b)]; ++t) {
      std::int32_t& id = batch.ids[static_cast<std::size_t>(t * columns + b)];
      if (id < config::kByteIds &&
          numbers.uniform_at(static_cast<std::uint64_t>(t)) < mask.probability) {
        id = static_cast<std::int32_t>(config::kMaskId);
      }
    }
  }
}

}  // namespace cambium::data
