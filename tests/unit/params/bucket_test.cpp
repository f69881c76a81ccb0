// unit/params/bucket_test.cpp — how one entity's parameters lie in memory, who owns which rows, and
// the packed copies.
// SPDX-License-Identifier: Apache-2.0
#include "params/bucket.hpp"

#include <cstring>
#include <gtest/gtest.h>

#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using device::Backend;
using device::DType;
using device::View;
using params::Bucket;
using params::Part;
using params::Partition;

Partition partition(
    int logical_tensor, int tensor, int tensor_rank, int data = 1, int data_rank = 0) {
  return {.logical = {.tensor = logical_tensor, .data = data},
          .physical = {.tensor = tensor, .data = data},
          .place = {.tensor = tensor_rank, .data = data_rank},
          .stages = {.first = {0, 2}}};
}

Bucket make_bucket(const model::Entity& entity,
                   const Partition& where,
                   Backend backend = Backend::reference) {
  params::Arenas arenas;
  return Bucket({.entity = entity}, where, arenas, backend);
}

// A layer (matrices cut both ways, two gains), a block, and vectors of more than one grain.
std::vector<model::Entity> entities() {
  std::vector<model::Entity> all =
      model::inventory(testing::with_blocks(testing::tiny_spec(), {"layers.0.mlp"}));
  all.push_back({.uid = 1 << 20,
                 .kind = model::EntityKind::norm,
                 .parameters = {{.name = "long",
                                 .uid = 1 << 20,
                                 .is_vector = true,
                                 .rows = 1,
                                 .cols = 10000,
                                 .leaf_elements = 10000},
                                {.name = "longer",
                                 .uid = (1 << 20) + 1,
                                 .is_vector = true,
                                 .rows = 1,
                                 .cols = 4096 * 3,
                                 .leaf_elements = 4096 * 3}}});
  return all;
}

TEST(Bucket, PartsFillItCutOnesFirst) {
  for (const model::Entity& e : entities()) {
    for (const int logical : {1, 2}) {
      const Bucket b = make_bucket(e, partition(logical, 1, 0));
      b.check_invariants();
      dim_t elements = 0;
      bool was_replicated = false;
      for (const Part& p : b.parts()) {
        EXPECT_EQ(p.offset, elements);
        EXPECT_GE(p.is_replicated(), was_replicated) << p.spec.name;
        was_replicated = p.is_replicated();
        EXPECT_EQ(p.weight.plain.rows, p.rows.size());
        EXPECT_EQ(p.weight.plain.cols, p.cols.size());
        elements += p.elements;
      }
      EXPECT_EQ(b.elements(), elements);
      EXPECT_EQ(b.elements(), model::parameter_count({e}));  // one rank holds all shards
      EXPECT_EQ(b.value().size(), elements);
    }
  }
}

TEST(Bucket, TensorRanksTogetherHoldEveryCutElementOnce) {
  for (const model::Entity& e : entities()) {
    dim_t cut = 0;
    dim_t replicated = 0;
    for (const model::ParameterSpec& p : e.parameters) {
      (p.cut == model::Cut::replicated ? replicated : cut) += p.elements();
    }
    dim_t held = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const Bucket b = make_bucket(e, partition(2, 2, rank));
      EXPECT_EQ(b.replicated().size(), replicated);
      held += b.elements() - replicated;
    }
    EXPECT_EQ(held, cut);
  }
}

TEST(Bucket, OwnedRangesTileInWholeGrains) {
  for (const model::Entity& e : entities()) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      dim_t at = 0;
      dim_t grain = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Bucket b = make_bucket(e, partition(2, 1, 0, ranks, rank));
        const Range own = b.owned_by(rank, ranks);
        EXPECT_EQ(own.begin, at);
        EXPECT_EQ(b.owned_grains_by(rank, ranks).begin, grain);
        EXPECT_EQ(b.owned(), own);
        EXPECT_EQ(b.held(), own);
        EXPECT_EQ(b.exp_avg().size(), own.size());
        EXPECT_EQ(b.exp_avg_sq().size(), own.size());
        for (const Part& p : b.parts()) {  // a cut inside a part falls between grains
          for (const dim_t edge : {own.begin, own.end}) {
            if (p.range().contains(edge)) {
              EXPECT_EQ((edge - p.offset) % p.grain, 0) << p.spec.name << " in " << ranks;
            }
          }
        }
        at = own.end;
        grain = b.owned_grains_by(rank, ranks).end;
        if (rank == ranks - 1) {
          EXPECT_EQ(at, b.elements());
          EXPECT_EQ(grain, b.grains());
        }
      }
    }
  }
}

TEST(Bucket, WithoutShardingEveryRankHoldsAllSlots) {
  params::Arenas arenas;
  const Bucket b({.entity = entities()[1], .is_sharded = false},
                 partition(1, 1, 0, 3, 1),
                 arenas,
                 Backend::reference);
  EXPECT_EQ(b.held(), (Range{0, b.elements()}));
  EXPECT_EQ(b.exp_avg().size(), b.elements());
  EXPECT_LT(b.owned().size(), b.elements());
}

TEST(Bucket, AGrainIsARowOrAPieceOfAVector) {
  const std::vector<model::Entity> all = entities();
  const Bucket layer = make_bucket(all[1], partition(2, 1, 0));
  for (const Part& p : layer.parts()) {
    EXPECT_EQ(p.grain, p.spec.is_vector ? model::kVectorGrain : p.cols.size()) << p.spec.name;
    EXPECT_EQ(p.grains, p.spec.is_vector ? 1 : p.rows.size()) << p.spec.name;
  }
  const Bucket vectors = make_bucket(all.back(), partition(1, 1, 0));
  EXPECT_EQ(vectors.parts()[0].grains, 3);  // 10000 = 2 · 4096 + 1808
  EXPECT_EQ(vectors.parts()[1].grains, 3);
  EXPECT_EQ(vectors.owned_by(0, 6), (Range{0, 4096}));
  EXPECT_EQ(vectors.owned_by(2, 6), (Range{8192, 10000}));
  EXPECT_EQ(vectors.owned_by(3, 6), (Range{10000, 14096}));
}

TEST(Bucket, BuffersFollowTheTreeOfDataShards) {
  params::Arenas arenas;
  for (const auto& [shards, buffers] :
       std::vector<std::pair<int, std::size_t>>{{1, 1}, {2, 2}, {4, 3}, {8, 4}}) {
    Partition where = partition(1, 1, 0);
    where.logical.data = shards;
    Bucket b({.entity = entities()[1], .lanes = 2}, where, arenas, Backend::reference);
    EXPECT_EQ(b.lane(0).buffers.size(), buffers) << shards;
    EXPECT_EQ(b.lanes(), 2);
  }
}

TEST(Bucket, TheFirstTouchWritesAndTheOthersAdd) {
  Bucket b = make_bucket(entities()[1], partition(2, 1, 0));
  const Part& p = b.parts()[3];
  EXPECT_EQ(b.touch(0, p), kernels::Accumulate::no);
  EXPECT_EQ(b.touch(0, p), kernels::Accumulate::yes);
  EXPECT_EQ(b.touch(0, b.parts()[4]), kernels::Accumulate::no);
}

TEST(Bucket, PanelsHoldTheWeightBothWays) {
  const std::vector<model::Entity> all = entities();
  params::Arenas arenas;
  device::Stream stream(Backend::cpu, 1);
  Bucket b({.entity = all[1]}, partition(2, 1, 0), arenas, Backend::cpu);
  b.initialise(5);
  b.pack(stream);
  for (const Part& p : b.parts()) {
    if (p.spec.is_vector) {
      EXPECT_TRUE(p.weight.forward.empty());
      continue;
    }
    const dim_t n = p.rows.size();
    const dim_t k = p.cols.size();
    const auto w = [&](dim_t r, dim_t c) { return p.weight.plain.as<float>()[r * k + c]; };
    constexpr dim_t width = kernels::kPanelWidth;
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < k; ++c) {
        EXPECT_EQ(p.weight.forward.as<float>()[(r / width * k + c) * width + r % width], w(r, c))
            << p.spec.name;
        EXPECT_EQ(p.weight.transposed.as<float>()[(c / width * n + r) * width + c % width], w(r, c))
            << p.spec.name;
      }
    }
    EXPECT_EQ(p.weight.forward.as<float>()[n % width], n % width == 0 ? w(0, 0) : 0)
        << "zeros beyond the edge";
  }
}

// Pairs of the sum's index stand side by side, an odd last one beside a zero.
TEST(Bucket, Bf16PanelsAreRoundedFromMastersThatStayAsTheyAre) {
  const std::vector<model::Entity> all = entities();
  params::Arenas arenas;
  device::Stream stream(Backend::cpu, 1);
  Bucket b({.entity = all[1], .panels = DType::bf16}, partition(2, 1, 0), arenas, Backend::cpu);
  b.initialise(5);
  b.pack(stream);
  EXPECT_EQ(b.value().dtype, DType::f32);
  EXPECT_EQ(b.exp_avg().dtype, DType::f32);
  std::size_t panels = 0;
  for (const Part& p : b.parts()) {
    if (p.spec.is_vector) {
      continue;
    }
    const dim_t n = p.rows.size();
    const dim_t k = p.cols.size();
    const auto pairs_at = [](View panels_of, dim_t column, dim_t at, dim_t sums) {
      constexpr dim_t width = kernels::kPanelWidth;
      const dim_t pairs = (sums + 1) / 2;
      return panels_of
          .as<device::BFloat16>()[((column / width * pairs + at / 2) * width + column % width) * 2 +
                                  at % 2];
    };
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < k; ++c) {
        const device::BFloat16 w = device::round_to_bf16(p.weight.plain.as<float>()[r * k + c]);
        EXPECT_EQ(pairs_at(p.weight.forward, r, c, k).bits, w.bits) << p.spec.name;
        EXPECT_EQ(pairs_at(p.weight.transposed, c, r, n).bits, w.bits) << p.spec.name;
      }
    }
    panels += 2 * static_cast<std::size_t>(p.weight.forward.size() + p.weight.transposed.size());
  }
  EXPECT_EQ(arenas.params.live_bytes(), 4 * static_cast<std::size_t>(b.elements()) + panels);
}

TEST(Bucket, IsRenamedAsTheSameEntityOnly) {
  std::vector<model::Entity> all = entities();
  Bucket b = make_bucket(all[1], partition(1, 1, 0));
  model::Entity moved = all[1];
  for (model::ParameterSpec& p : moved.parameters) {
    p.name = "layers.5." + p.name.substr(9);
  }
  b.rename(moved);
  for (const Part& p : b.parts()) {
    EXPECT_TRUE(testing::begins_with(p.spec.name, "layers.5.")) << p.spec.name;
  }
  EXPECT_THROW(b.rename(all[2]), Error);
}

}  // namespace
}  // namespace cambium
