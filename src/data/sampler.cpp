// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace cambium::data {
namespace {

constexpr dim_t kBlock = 65536;

// Folds a stream's name into the seed; stream 0 keeps the seed itself (design.md §3: keyed by
// (seed, epoch)).
std::uint64_t seed_of(std::uint64_t seed, std::uint64_t stream) {
  return stream == 0 ? seed : RandomStream(seed, Purpose::order, stream).bits_at(0);
}

// Shares of a block by largest remainder, each at least 1; the first of equals gets the rest.
std::vector<dim_t> quotas(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<dim_t> quota(weights.size());
  std::vector<double> rest(weights.size());
  for (std::size_t s = 0; s < weights.size(); ++s) {
    const double exact = weights[s] / total * static_cast<double>(kBlock);
    quota[s] = std::max<dim_t>(1, static_cast<dim_t>(exact));
    rest[s] = exact - static_cast<double>(quota[s]);
  }
  for (dim_t sum = std::accumulate(quota.begin(), quota.end(), dim_t{0}); sum != kBlock;) {
    const bool is_short = sum < kBlock;
    const auto at = is_short ? std::max_element(rest.begin(), rest.end()) - rest.begin()
                             : std::max_element(quota.begin(), quota.end()) - quota.begin();
    quota[static_cast<std::size_t>(at)] += is_short ? 1 : -1;
    rest[static_cast<std::size_t>(at)] -= is_short ? 1 : 0;
    sum += is_short ? 1 : -1;
  }
  return quota;
}

}  // namespace

Sampler::Sampler(std::uint64_t seed,
                 dim_t global_batch_size,
                 std::vector<dim_t> samples_of_source,
                 std::vector<double> weights,
                 std::uint64_t stream)
    : seed_(seed_of(seed, stream)),
      global_batch_size_(global_batch_size),
      samples_(std::move(samples_of_source)) {
  CAMBIUM_CHECK(!samples_.empty() && samples_.size() < kBlock, "a mixture of nothing");
  CAMBIUM_CHECK(weights.empty() || weights.size() == samples_.size(), "weights of other sources");
  for (const dim_t samples : samples_) {
    if (samples <= 0) {
      throw Error(Code::bad_input, "sampler: a source with 0 samples, expected at least 1");
    }
  }
  for (const double weight : weights) {
    CAMBIUM_CHECK(weight > 0 && std::isfinite(weight), "a weight that is not positive");
  }
  if (samples_.size() > 1) {
    weights.resize(samples_.size(), 1.0);
    first_.push_back(0);
    for (const dim_t quota : quotas(weights)) {
      first_.push_back(first_.back() + quota);
    }
  }
}

SampleId Sampler::at_place_of(dim_t source, dim_t place) const {
  const auto n = static_cast<std::uint64_t>(samples_[static_cast<std::size_t>(source)]);
  const auto p = static_cast<std::uint64_t>(place);
  const std::uint64_t seed =
      source == 0 ? seed_ : seed_of(seed_, static_cast<std::uint64_t>(source));
  return {.source = source,
          .sample = static_cast<dim_t>(Permutation(n, seed, p / n).at(p % n)),
          .epoch = static_cast<dim_t>(p / n)};
}

SampleId Sampler::at(dim_t step, dim_t index) const {
  CAMBIUM_CHECK(step >= 1 && index >= 0 && index < global_batch_size_, "a place outside the order");
  const dim_t place = (step - 1) * global_batch_size_ + index;
  if (first_.empty()) {
    return at_place_of(0, place);
  }
  const dim_t block = place / kBlock;
  // The deal of places to sources must not be the permutation of any source.
  const std::uint64_t deal = RandomStream(seed_, Purpose::order, ~std::uint64_t{0}).bits_at(0);
  const auto slot = static_cast<dim_t>(Permutation(kBlock, deal, static_cast<std::uint64_t>(block))
                                           .at(static_cast<std::uint64_t>(place % kBlock)));
  const auto above = std::upper_bound(first_.begin(), first_.end(), slot);
  const auto source = static_cast<std::size_t>(above - first_.begin() - 1);
  const dim_t quota = first_[source + 1] - first_[source];
  return at_place_of(static_cast<dim_t>(source), block * quota + slot - first_[source]);
}

}  // namespace cambium::data
