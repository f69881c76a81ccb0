// SPDX-License-Identifier: Apache-2.0
#include "phases/stragglers.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace cambium::phases {
namespace {

constexpr double kTimes = 2;
constexpr double kMoreSeconds = 0.05;

}  // namespace

std::optional<SlowRank> find_slow_rank(std::span<const double> seconds_by_rank,
                                       const comm::PhysicalMesh& mesh,
                                       std::vector<double>& space) {
  std::optional<SlowRank> slowest;
  const auto ranks = static_cast<int>(seconds_by_rank.size());
  for (int r = 0; r < ranks; ++r) {
    const double own = seconds_by_rank[static_cast<std::size_t>(r)];
    space.clear();
    for (int s = 0; s < ranks; ++s) {
      if (s != r &&
          comm::coordinates_of(mesh, s).pipeline == comm::coordinates_of(mesh, r).pipeline) {
        space.push_back(seconds_by_rank[static_cast<std::size_t>(s)]);
      }
    }
    if (space.empty()) {
      continue;
    }
    const auto middle = space.begin() + static_cast<std::ptrdiff_t>((space.size() - 1) / 2);
    std::nth_element(space.begin(), middle, space.end());
    const bool is_slow = own > kTimes * *middle && own > *middle + kMoreSeconds;
    if (is_slow && (!slowest || own > slowest->seconds)) {
      slowest = SlowRank{.rank = r, .seconds = own, .usual = *middle};
    }
  }
  return slowest;
}

std::span<const double> Stragglers::note(comm::Group& world, double seconds) {
  least_ = noted_ == 0 ? seconds : std::min(least_, seconds);
  if (++noted_ < kWindow) {
    return {};
  }
  noted_ = 0;
  const auto ranks = static_cast<std::size_t>(world.size());
  by_rank_.resize(ranks);
  bytes_.assign(ranks, sizeof(double));
  world.all_gather(&least_, bytes_, by_rank_.data());
  return by_rank_;
}

std::optional<std::string> Stragglers::name(comm::World& world, const SlowRank& slow) {
  if (std::find(named_.begin(), named_.end(), slow.rank) != named_.end()) {
    return std::nullopt;
  }
  named_.push_back(slow.rank);
  std::array<char, 257> host{};  // ends with a zero whatever the name's length
  if (world.rank() == slow.rank) {
    world.host().copy(host.data(), host.size() - 1);
  }
  world.group().broadcast(host.data(), host.size(), slow.rank);
  return fmt::format(
      "rank {} ({}) is slow: at least {:.3f} s of own work in each of {} steps, the other ranks of "
      "its stage {:.3f} s; look for another job, a hot core or a slow disk on that host",
      slow.rank,
      host.data(),
      slow.seconds,
      kWindow,
      slow.usual);
}

}  // namespace cambium::phases
