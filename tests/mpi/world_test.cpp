// tests/mpi/world_test.cpp — the groups of the mesh, and what all ranks do together.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>

#include "comm/collectively.hpp"
#include "support/mpi_main.hpp"

namespace cambium::comm {
namespace {

using cambium::testing::world;
using ::testing::HasSubstr;

// World ranks of a group's members, by rank in the group.
std::vector<int> members_of(Group& group) {
  std::vector<int> members(static_cast<std::size_t>(group.size()));
  const std::vector<std::size_t> bytes(members.size(), sizeof(int));
  const int rank = world().rank();
  group.all_gather(&rank, bytes, members.data());
  return members;
}

void check_groups(const PhysicalMesh& mesh) {
  MeshGroups groups = world().make_mesh_groups(mesh);
  const Coordinates own = coordinates_of(mesh, world().rank());
  std::vector<int> tensor;
  std::vector<int> data;
  std::vector<int> pipeline;
  std::vector<int> stage;
  for (int t = 0; t < mesh.tensor; ++t) {
    tensor.push_back(rank_of(mesh, {t, own.data, own.pipeline}));
  }
  for (int d = 0; d < mesh.data; ++d) {
    data.push_back(rank_of(mesh, {own.tensor, d, own.pipeline}));
    for (int t = 0; t < mesh.tensor; ++t) {
      stage.push_back(rank_of(mesh, {t, d, own.pipeline}));
    }
  }
  for (int p = 0; p < mesh.pipeline; ++p) {
    pipeline.push_back(rank_of(mesh, {own.tensor, own.data, p}));
  }

  EXPECT_EQ(members_of(*groups.tensor), tensor);
  EXPECT_EQ(members_of(*groups.data), data);
  EXPECT_EQ(members_of(*groups.pipeline), pipeline);
  EXPECT_EQ(members_of(*groups.stage), stage);
  EXPECT_EQ(groups.tensor->rank(), own.tensor);
  EXPECT_EQ(groups.pipeline->rank(), own.pipeline);
  EXPECT_EQ(groups.data->name(), "data");
}

TEST(World, MakesTheGroupsOfEveryMesh) {
  const int n = world().size();
  for (int tensor = 1; tensor <= n; ++tensor) {
    for (int pipeline = 1; pipeline * tensor <= n; ++pipeline) {
      if (n % (tensor * pipeline) == 0) {
        check_groups(
            {.tensor = tensor, .pipeline = pipeline, .context = 1, .data = n / tensor / pipeline});
      }
    }
  }
}

TEST(World, RefusesAMeshOfAnotherSize) {
  try {
    (void)world().make_mesh_groups({.tensor = 5, .pipeline = 7, .context = 1, .data = 1});
    ADD_FAILURE() << "35 ranks were made of fewer";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::usage);
    EXPECT_THAT(e.what(), HasSubstr("= 35 ranks, but " + std::to_string(world().size())));
  }
}

TEST(World, KnowsItsHost) {
  EXPECT_FALSE(world().host().empty());
  EXPECT_FALSE(world().is_alone());
}

// The exception that `work` ends in on every rank, when it throws on `thrower` only.
template <typename F>
AgreedError agreed_error(F&& work) {
  try {
    collectively(world().group(), "open checkpoint", work);
  } catch (const AgreedError& e) {
    return e;
  }
  ADD_FAILURE() << "rank " << world().rank() << " saw no error";
  return {Code::bug, "", -1};
}

TEST(Collectively, OneRanksErrorIsThrownByAllInItsWords) {
  const int thrower = world().size() > 1 ? 1 : 0;

  const AgreedError e = agreed_error([&] {
    if (world().rank() == thrower) {
      throw Error(Code::bad_input, "data.jsonl:3: expected an object, got a list");
    }
  });

  EXPECT_EQ(e.code(), Code::bad_input);
  EXPECT_STREQ(e.what(), "data.jsonl:3: expected an object, got a list");
  EXPECT_EQ(e.failed_rank(), thrower);
}

TEST(Collectively, TheLowestOfSeveralSpeaks) {
  const int first = world().size() / 2;

  const AgreedError e = agreed_error([&] {
    if (world().rank() >= first) {
      throw Error(Code::storage, "disk of rank " + std::to_string(world().rank()));
    }
  });

  EXPECT_EQ(e.what(), "disk of rank " + std::to_string(first));
  EXPECT_EQ(e.failed_rank(), first);
}

TEST(Collectively, OutOfMemoryDoesNotFitAndAnythingElseIsABug) {
  const AgreedError memory = agreed_error([] { throw std::bad_alloc(); });
  const AgreedError other = agreed_error([] { throw std::out_of_range("index 7"); });
  const AgreedError odd = agreed_error([] { throw 7; });

  EXPECT_EQ(memory.code(), Code::does_not_fit);
  EXPECT_EQ(other.code(), Code::bug);
  EXPECT_THAT(other.what(), HasSubstr("open checkpoint: unexpected exception: index 7"));
  EXPECT_EQ(odd.code(), Code::bug);
}

TEST(Collectively, GivesTheValueBackAndGoesOn) {
  const std::unique_ptr<int> value =
      collectively(world().group(), "work", [] { return std::make_unique<int>(world().rank()); });
  EXPECT_EQ(*value, world().rank());

  std::int64_t sum = 1;
  world().group().all_reduce(std::span(&sum, 1), Reduce::sum);
  EXPECT_EQ(sum, world().size());
}

}  // namespace
}  // namespace cambium::comm
