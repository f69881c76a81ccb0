// config/check_campaign.hpp — checks that look at more than one key. Pure; problems are returned,
// not thrown. A check whose own inputs are missing says nothing: the reader has named them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"
#include "config/campaign.hpp"

namespace cambium::config {

struct Problem {
  std::string path;  // dotted key
  std::string text;

  bool operator==(const Problem&) const = default;
};

using Problems = std::vector<Problem>;

// Heads, key/value heads, widths, vocabulary, precision and device; what this version refuses.
void check_model(const Campaign& campaign, Problems& problems);
// Meshes as far as they are known without the number of ranks: divisors of heads and batches,
// stages and layers.
void check_meshes(const Campaign& campaign, Problems& problems);
// Names, start_from, learning rates, growth targets, labels, sequence lengths.
void check_phases(const Campaign& campaign, Problems& problems);

// Samples of an update or a batch of a phase; 0 for grow, and for evaluate without one.
[[nodiscard]] dim_t global_batch_size(const Phase& phase);
// Tokens of a sample; 0 for grow.
[[nodiscard]] dim_t sequence_length(const Phase& phase);
// The dotted path of a phase as places know it: `phases.NAME`, or `phases.I` where names are
// missing or doubled.
[[nodiscard]] std::string phase_path(const Campaign& campaign, std::size_t index);

// The divisors of n, ascending.
[[nodiscard]] std::vector<dim_t> divisors(dim_t n);
// `1, 2, 4`.
[[nodiscard]] std::string list_of(const std::vector<dim_t>& values);

// The logical mesh of the file, its kAuto filled by the default of design.md §1 for the given
// physical sizes (kAuto: 1).
[[nodiscard]] LogicalMeshConfig default_logical_mesh(const Campaign& campaign,
                                                     int tensor,
                                                     int data);
// Batches over a logical data size, heads over a logical tensor size, physical over logical.
void check_logical(const Campaign& campaign,
                   const LogicalMeshConfig& logical,
                   const ParallelConfig& physical,
                   Problems& problems);

// One Error(usage), one problem a line, each after the place of its key; nothing when there are
// none.
void throw_problems(const Campaign& campaign, const Problems& problems);

}  // namespace cambium::config
