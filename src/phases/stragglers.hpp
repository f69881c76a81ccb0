// phases/stragglers.hpp — finds the rank that makes all others wait: steps are synchronous, so that
// the seconds of a step are the same everywhere and blame nobody. Times decide no number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "comm/topology.hpp"
#include "comm/world.hpp"

namespace cambium::phases {

// Own work of a rank in a step is compared with that of the ranks of its stage, which have the
// same to do.
struct SlowRank {
  int rank = 0;
  double seconds = 0;  // its own work
  double usual = 0;    // the lower median of its stage's other ranks
};

// The rank of the longest own work of those that need more than twice the usual time and at least
// 50 ms more. None in stages of one rank: nobody there has the same work. `space` is worked in.
[[nodiscard]] std::optional<SlowRank> find_slow_rank(std::span<const double> seconds_by_rank,
                                                     const comm::PhysicalMesh& mesh,
                                                     std::vector<double>& space);

class Stragglers {
 public:
  // Steps over which the least time counts: a single stall leaves it as it is.
  static constexpr dim_t kWindow = 4;

  // Notes this rank's own work in a step. At the end of a window: the least of it of every rank, by
  // rank. Collective over: world, then (8 bytes a rank).
  [[nodiscard]] std::span<const double> note(comm::Group& world, double seconds);

  // find_slow_rank of what note() last returned.
  [[nodiscard]] std::optional<SlowRank> find(const comm::PhysicalMesh& mesh) {
    return find_slow_rank(by_rank_, mesh, space_);
  }

  // A line for the log about a slow rank that was not named before, with its host. Collective over:
  // world, all ranks with the same `slow`.
  [[nodiscard]] std::optional<std::string> name(comm::World& world, const SlowRank& slow);

 private:
  dim_t noted_ = 0;
  double least_ = 0;
  std::vector<double> by_rank_;
  std::vector<std::size_t> bytes_;  // of each rank's message
  std::vector<double> space_;
  std::vector<int> named_;
};

}  // namespace cambium::phases
