// SPDX-License-Identifier: Apache-2.0
#include "comm/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace cambium::comm {
namespace {

using ::testing::HasSubstr;

TEST(Topology, TensorIsFastestThenDataThenPipeline) {
  const PhysicalMesh mesh{.tensor = 2, .pipeline = 3, .context = 1, .data = 4};

  EXPECT_EQ(mesh.ranks(), 24);
  EXPECT_EQ(rank_of(mesh, {.tensor = 1, .data = 0, .pipeline = 0}), 1);
  EXPECT_EQ(rank_of(mesh, {.tensor = 0, .data = 1, .pipeline = 0}), 2);
  EXPECT_EQ(rank_of(mesh, {.tensor = 0, .data = 0, .pipeline = 1}), 8);
}

TEST(Topology, EveryRankHasOnePlaceAndBack) {
  const PhysicalMesh mesh{.tensor = 2, .pipeline = 3, .context = 1, .data = 4};
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    EXPECT_EQ(rank_of(mesh, coordinates_of(mesh, rank)), rank);
  }
  EXPECT_THROW((void)coordinates_of(mesh, 24), Error);
  EXPECT_THROW((void)coordinates_of(mesh, -1), Error);
  EXPECT_THROW((void)rank_of(mesh, {.tensor = 2, .data = 0, .pipeline = 0}), Error);
}

TEST(Topology, ADividingMeshIsFine) {
  EXPECT_NO_THROW(check_mesh({.tensor = 4, .context = 1, .data = 6},
                             {.tensor = 2, .pipeline = 5, .context = 1, .data = 3}));
}

TEST(Topology, ANonDividingMeshIsRefusedWithAllProblemsAndTheSizesThatDo) {
  try {
    check_mesh({.tensor = 4, .context = 1, .data = 6},
               {.tensor = 3, .pipeline = 0, .context = 1, .data = 4});
    ADD_FAILURE() << "it was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::usage);
    EXPECT_THAT(
        e.what(),
        HasSubstr("parallel.tensor: 3 ranks do not divide the 4 logical shards; use one of 1 2 4"));
    EXPECT_THAT(
        e.what(),
        HasSubstr("parallel.data: 4 ranks do not divide the 6 logical shards; use one of 1 2 3 6"));
    EXPECT_THAT(e.what(), HasSubstr("parallel.pipeline: 0 ranks, expected at least 1"));
  }
}

}  // namespace
}  // namespace cambium::comm
