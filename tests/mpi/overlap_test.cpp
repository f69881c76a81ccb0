// mpi/overlap_test.cpp — the data reduction travels beside the backward: messages leave before the
// backward has ended, nobody waits for a slow rank until the reduction itself, and the bits are
// those of the reduction that begins after the backward.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

#include "comm/tree_exchange.hpp"
#include "engine/engine.hpp"
#include "support/bits.hpp"
#include "support/mpi_main.hpp"
#include "support/tiny_spec.hpp"
#include "support/tokens.hpp"

namespace cambium {
namespace {

using testing::world;

struct Outcome {
  std::vector<float> gradients;  // owned elements of all buckets
  std::int64_t sent_in_backward = 0;
  std::int64_t sent = 0;
};

// One pass and its reduction on 4 data ranks of `logical_data` shards.
class Trainer {
 public:
  Trainer(bool is_overlapped, bool is_sharded, dim_t logical_data)
      : shape_{.backend = device::Backend::cpu,
               .dtype = device::DType::f32,
               .tensor = 2,
               .data = static_cast<int>(logical_data),
               .is_sharded = is_sharded},
        spec_(testing::with_blocks(testing::tiny_spec(), {"embedding", "layers.1.mlp", "norm"})),
        where_{.logical = {2, 1, static_cast<int>(logical_data)},
               .physical = mesh_,
               .place = comm::coordinates_of(mesh_, world().rank()),
               .stages = model::plan_stages(spec_, 1)},
        stream_(shape_.backend, 1),
        groups_(world().make_mesh_groups(mesh_)),
        store_(spec_, where_, testing::store_shape_of(shape_), std::make_shared<params::Arenas>()),
        engine_(spec_,
                store_,
                stream_,
                groups_,
                {.is_overlapped = is_overlapped,
                 .tensor = {.batch = shape_.batch,
                            .positions = shape_.positions,
                            .hidden = spec_.hidden,
                            .logical_tensor = shape_.tensor,
                            .dtype = shape_.dtype}}) {
    store_.initialise(shape_.seed);
    store_.pack(stream_);
    for (testing::Tokens& t : testing::draw_tokens(shape_, spec_.vocabulary, 3)) {
      if (where_.data_shards().contains(t.data_shard)) {
        t.data_shard -= where_.data_shards().begin;
        mine_.push_back(std::move(t));
      }
    }
    batches_ = testing::micro_batches(mine_, 0.1);
  }

  // `between`: after the backward, before the reduction.
  Outcome run(const engine::PassHooks& hooks = {}, const std::function<void()>& between = {}) {
    Outcome result;
    const std::int64_t before = groups_.data->bytes_sent();
    (void)engine_.run(batches_, hooks);
    result.sent_in_backward = groups_.data->bytes_sent() - before;
    if (between) {
      between();
    }
    engine_.sync().reduce();
    result.sent = groups_.data->bytes_sent() - before;
    for (const auto& b : store_.buckets()) {
      const device::View g = engine_.sync().gradient(*b).slice_cols(b->held());
      result.gradients.insert(result.gradients.end(), g.as<float>(), g.as<float>() + g.size());
    }
    return result;
  }

 private:
  comm::PhysicalMesh mesh_{.data = 4};
  testing::RigShape shape_;
  model::Spec spec_;
  params::Partition where_;
  device::Stream stream_;
  comm::MeshGroups groups_;
  params::ParamStore store_;
  engine::Engine engine_;
  std::vector<testing::Tokens> mine_;
  std::vector<engine::MicroBatch> batches_;
};

TEST(Overlap, HasTheBitsAndBytesOfTheReductionAfterTheBackward) {
  for (const bool is_sharded : {true, false}) {
    for (const dim_t logical_data : {4, 8, 12}) {
      Trainer beside(true, is_sharded, logical_data);
      Trainer after(false, is_sharded, logical_data);
      for (int step = 0; step < 2; ++step) {
        const Outcome a = beside.run();
        const Outcome b = after.run();
        EXPECT_BITS_EQ(a.gradients, b.gradients)
            << logical_data << (is_sharded ? ", sharded" : ", whole") << ", step " << step;
        EXPECT_EQ(a.sent, b.sent);
        EXPECT_GT(a.sent_in_backward, 0);
        EXPECT_EQ(b.sent_in_backward, 0);
      }
    }
  }
}

// Rank 1 does not enter its pass before rank 0 says that its own is over: a backward that waited
// for another rank's gradients would wait for ever.
TEST(Overlap, TheBackwardNeverWaitsForAnotherDataRank) {
  Trainer trainer(true, true, 4);
  comm::Group& all = world().group();
  constexpr int kTag = 5;
  char word = 0;
  engine::PassHooks hooks;
  bool is_first = true;
  hooks.beat = [&](const char* /*action*/) {
    if (is_first && all.rank() == 1) {
      all.receive(&word, 1, 0, kTag).wait();
    }
    is_first = false;
  };
  const Outcome got = trainer.run(hooks, [&] {
    if (all.rank() == 0) {
      all.send(&word, 1, 1, kTag).wait();
    }
  });
  EXPECT_BITS_EQ(got.gradients, Trainer(false, true, 4).run().gradients);
}

// Every rank is slow in another place.
TEST(Overlap, KeepsItsBitsWhicheverRankIsSlow) {
  Trainer trainer(true, true, 8);
  const Outcome want = Trainer(false, true, 8).run();
  for (int slow = 0; slow < 4; ++slow) {
    engine::PassHooks hooks;
    int action = 0;
    hooks.beat = [&](const char* /*action*/) {
      if (world().rank() == slow || ++action % 4 == world().rank()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    };
    EXPECT_BITS_EQ(trainer.run(hooks).gradients, want.gradients) << "slow rank " << slow;
  }
}

// The exchange alone: nothing is added before finish, and test() says when finish will not wait.
TEST(TreeExchange, LeavesTheResultAloneUntilItIsFinished) {
  comm::Group& group = world().group();
  const int ranks = group.size();
  const comm::ShardSum sum(ranks, ranks, group.rank());
  comm::TreeExchange exchange(group, sum, 9);
  device::Stream stream(device::Backend::cpu, 1);
  const dim_t elements = 4 * ranks;
  std::vector<float> node(static_cast<std::size_t>(elements),
                          static_cast<float>(1 << group.rank()));
  const std::vector<float> before = node;
  std::vector<Range> ranges;
  for (int r = 0; r < ranks; ++r) {
    ranges.push_back(share(elements, ranks, r));
  }
  const device::View nodes[] = {device::view_of(node.data(), elements)};
  const Range own = ranges[static_cast<std::size_t>(group.rank())];
  device::Buffer workspace(exchange.workspace_bytes(own.size(), device::DType::f32));
  exchange.start(nodes, ranges, nodes[0].slice_cols(own), workspace);
  while (!exchange.test()) {
    std::this_thread::yield();
  }
  EXPECT_BITS_EQ(node, before);
  exchange.finish(stream);
  for (dim_t e = 0; e < elements; ++e) {
    EXPECT_EQ(node[static_cast<std::size_t>(e)],
              own.contains(e) ? static_cast<float>((1 << ranks) - 1)
                              : before[static_cast<std::size_t>(e)]);
  }
  EXPECT_FALSE(exchange.is_under_way());
}

}  // namespace
}  // namespace cambium
