// data/mtssl_data.hpp — labelled, unlabelled and held-out texts of an mtssl phase, and their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/mtssl_config.hpp"
#include "data/label_set.hpp"
#include "data/sampler.hpp"
#include "data/text_set.hpp"

namespace cambium::data {

// Only texts of the label set are used, of a labelled file. labelled: labelled_per_class of each
// class, chosen by (seed, class), in file order. unlabelled: the other file's texts, or, without
// one (or with the same file), what is left of the labelled one.
struct MtsslData {
  LabelSet labels;
  TextSet labelled;
  TextSet unlabelled;  // may be empty when the threshold is off
  TextSet held_out;
  Sampler labelled_order;             // of global_batch_size texts an update
  Sampler unlabelled_order;           // of global_batch_size * unlabelled_ratio texts an update
  std::vector<std::string> warnings;  // one line each: replaced characters, texts of other labels
};

// Throws: Error(bad_input) for bad files, unknown labels, a class with too few texts, no unlabelled
// text while the threshold is on.
[[nodiscard]] MtsslData load_mtssl_data(const config::MtsslPhase& phase, std::uint64_t seed);

// The texts of a labelled file whose label is in the set, in file order: held-out texts, and those
// of an evaluate phase. Throws: Error(bad_input) for a bad file and for one without any such text.
[[nodiscard]] TextSet load_labelled_texts(const std::filesystem::path& path,
                                          const LabelSet& labels,
                                          std::vector<std::string>& warnings);

}  // namespace cambium::data
