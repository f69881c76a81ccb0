// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "base/error.hpp"
#include "base/philox.hpp"
#include "data/token.hpp"

namespace cambium::data {
namespace {

TEST(Sampler, AnEpochTakesEverySampleOnce) {
  const Sampler sampler(5, 4, {10});
  std::multiset<dim_t> first;
  std::vector<dim_t> order[2];
  for (dim_t place = 0; place < 20; ++place) {
    const SampleId id = sampler.at(place / 4 + 1, place % 4);
    EXPECT_EQ(id.epoch, place / 10);
    order[place / 10].push_back(id.sample);
  }
  EXPECT_NE(order[0], order[1]);
  for (auto& epoch : order) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, (std::vector<dim_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST(Sampler, OneSourceIsThePermutationOfSeedAndEpoch) {
  const Sampler sampler(77, 8, {100});

  EXPECT_EQ(sampler.at(14, 3).sample, static_cast<dim_t>(Permutation(100, 77, 1).at(7)));
}

TEST(Sampler, TheOrderDoesNotDependOnTheBatchSize) {
  const Sampler small(3, 4, {50});
  const Sampler large(3, 16, {50});

  EXPECT_EQ(small.at(5, 0), large.at(2, 0));
}

TEST(Sampler, SeedsAndStreamsDiffer) {
  int equal_seed = 0;
  int equal_stream = 0;
  for (dim_t i = 0; i < 64; ++i) {
    const SampleId id = Sampler(1, 64, {1000}).at(1, i);
    equal_seed += id == Sampler(2, 64, {1000}).at(1, i) ? 1 : 0;
    equal_stream += id == Sampler(1, 64, {1000}, {}, 1).at(1, i) ? 1 : 0;
  }
  EXPECT_LT(equal_seed, 8);
  EXPECT_LT(equal_stream, 8);
}

TEST(Sampler, AMixtureKeepsItsWeightsAndEpochs) {
  const Sampler sampler(9, 64, {30000, 7}, {3, 1});
  std::vector<dim_t> count(2);
  std::multiset<dim_t> first_epoch;
  std::multiset<dim_t> small_epoch;
  for (dim_t step = 1; step <= 1024; ++step) {
    for (dim_t i = 0; i < 64; ++i) {
      const SampleId id = sampler.at(step, i);
      ++count[static_cast<std::size_t>(id.source)];
      if (id.epoch == 0) {
        (id.source == 0 ? first_epoch : small_epoch).insert(id.sample);
      }
    }
  }
  EXPECT_EQ(count, (std::vector<dim_t>{49152, 16384}))
      << "a block of 65536 places has exact shares";
  EXPECT_EQ(first_epoch.size(), 30000U);
  EXPECT_EQ(std::set<dim_t>(first_epoch.begin(), first_epoch.end()).size(), 30000U);
  EXPECT_EQ(small_epoch, (std::multiset<dim_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Sampler, ATinyWeightIsNotForgotten) {
  const Sampler sampler(9, 65536, {10, 10}, {1e9, 1e-9});
  dim_t rare = 0;
  for (dim_t i = 0; i < 65536; ++i) {
    rare += sampler.at(1, i).source;
  }
  EXPECT_EQ(rare, 1);
}

TEST(Sampler, RefusesNothingAndPlacesOutside) {
  EXPECT_THROW(Sampler(1, 4, {0}), Error);
  EXPECT_THROW(Sampler(1, 4, {3, 3}, {1, 0}), Error);
  EXPECT_THROW((void)Sampler(1, 4, {3}).at(0, 0), Error);
  EXPECT_THROW((void)Sampler(1, 4, {3}).at(1, 4), Error);
}

TEST(BatchShape, MicroBatchesCoverTheGlobalBatchOnce) {
  const BatchShape shape{.global_batch_size = 24, .micro_batch_size = 2, .shards = 4};
  dim_t next = 0;

  ASSERT_EQ(shape.micro_batches_per_shard(), 3);
  for (dim_t shard = 0; shard < 4; ++shard) {
    for (dim_t m = 0; m < 3; ++m) {
      EXPECT_EQ(shape.samples(shard, m), (Range{next, next + 2}));
      next += 2;
    }
  }
  EXPECT_EQ(next, 24);
}

}  // namespace
}  // namespace cambium::data
