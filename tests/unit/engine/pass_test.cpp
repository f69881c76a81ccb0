// unit/engine/pass_test.cpp — what a pass leaves behind: forward-only micro-batches nothing, the
// two halves of backward their own parts, micro-batches their sum, and the valid tokens of the
// whole step the one denominator.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kernels/cross_entropy.hpp"
#include "support/bits.hpp"
#include "support/rig.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using device::Backend;
using device::DType;
using testing::Rig;
using testing::RigShape;
using testing::Tokens;

std::map<std::string, Rig::Values> gradients_of(Rig& rig) {
  std::map<std::string, Rig::Values> out;
  for (const std::string& name : rig.names()) {
    out[name] = rig.gradient(name);
  }
  return out;
}

void ignore_all(Tokens& tokens) {
  std::fill(tokens.targets.begin(), tokens.targets.end(), -100);
}

const std::vector<RigShape> kShapes = {
    {.backend = Backend::reference, .dtype = DType::f64, .tensor = 1, .data = 1},
    {.backend = Backend::reference, .dtype = DType::f32, .tensor = 2, .data = 2},
    {.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 3},
    {.backend = Backend::cpu, .dtype = DType::bf16, .tensor = 2, .data = 3},
};

TEST(Pass, ForwardOnlyGivesTheLossesOfTraining) {
  for (const RigShape& shape : kShapes) {
    Rig rig(testing::tiny_spec(), shape);
    std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 2);
    const std::vector<double> probed =
        rig.runner.run(testing::micro_batches(tokens, 0, layers::Mode::forward_only), {});
    const std::vector<double> trained = rig.runner.run(testing::micro_batches(tokens, 0.1), {});
    EXPECT_BITS_EQ(probed, trained);
    EXPECT_EQ(trained.size(), static_cast<std::size_t>(shape.data));
    EXPECT_NEAR(
        trained[0] / static_cast<double>(2 * shape.batch * shape.positions), std::log(13), 1.5);
  }
}

TEST(Pass, ForwardOnlyMicroBatchesLeaveNothingBehind) {
  for (const RigShape& shape : kShapes) {
    Rig rig(testing::with_blocks(testing::tiny_spec(), {"layers.0.mlp"}), shape);
    std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 2);
    const std::vector<engine::MicroBatch> train = testing::micro_batches(tokens, 0.1);
    (void)rig.run(train);
    const auto alone = gradients_of(rig);
    std::vector<Tokens> others =
        testing::draw_tokens({.data = shape.data, .seed = 8}, rig.spec.vocabulary);
    const std::vector<engine::MicroBatch> probes =
        testing::micro_batches(others, 0, layers::Mode::forward_only);
    std::vector<engine::MicroBatch>
        mixed;  // of each shard: a probe, its first micro-batch, a probe, its second
    for (std::size_t s = 0; s < probes.size(); ++s) {
      mixed.insert(mixed.end(), {probes[s], train[2 * s], probes[s], train[2 * s + 1]});
    }
    (void)rig.run(mixed);
    for (const auto& [name, gradient] : alone) {
      EXPECT_BITS_EQ(rig.gradient(name), gradient) << name;
    }
  }
}

TEST(Pass, BackwardInputTouchesNoWeightAndBackwardWeightAddsThem) {
  const RigShape shape{.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2};
  Rig whole(testing::tiny_spec(false), shape);
  Rig split(testing::tiny_spec(false), shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, whole.spec.vocabulary);
  std::vector<engine::MicroBatch> batches = testing::micro_batches(tokens, 0.1);
  (void)whole.run(batches);

  engine::StageModel model(split.spec,
                           split.store,
                           split.stream,
                           *split.groups.tensor,
                           split.runner.shape().tensor,
                           Recompute::none,
                           engine::BackwardOrder::split);
  engine::Slot slot = model.make_slot();
  split.runner.sync().begin_step();
  (void)model.forward({}, batches[0].ids, slot, layers::Mode::train);
  const device::View h = model.norm->forward(slot.output, *slot.norm, layers::Mode::train);
  (void)model.head->forward(h, batches[0].targets, 0.1, layers::Mode::train, slot.norm->dh);
  const auto touched = [&] {
    std::set<std::string> names;
    for (const auto& b : split.store.buckets()) {
      for (std::size_t p = 0; p < b->parts().size(); ++p) {
        if (b->lane(0).is_touched[p] != 0) {
          names.insert(b->parts()[p].spec.name);
        }
      }
    }
    return names;
  };
  const auto finish = [&](dim_t layer) { split.runner.sync().finish(layer, 0); };
  model.backward_input(slot, {}, finish);
  EXPECT_EQ(touched(), std::set<std::string>{"head.weight"});
  std::vector<dim_t> done;
  model.backward_weight(batches[0].ids, slot, [&](dim_t layer) {
    done.push_back(layer);
    finish(layer);
  });
  EXPECT_EQ(done, (std::vector<dim_t>{2, 1, 0, -1}));
  EXPECT_EQ(touched().size(), 2U + 2 * 7);  // table, head, seven matrices a layer
  split.runner.sync().reduce();
  for (const std::string& name : whole.names()) {
    EXPECT_BITS_EQ(split.gradient(name), whole.gradient(name)) << name;
  }
}

TEST(Pass, GradientsOfMicroBatchesAreAdded) {
  const RigShape shape{.tensor = 2};
  Rig rig(testing::tiny_spec(), shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 3);
  const std::vector<engine::MicroBatch> batches = testing::micro_batches(tokens, 0.1);
  std::map<std::string, Rig::Values> sum;
  for (const engine::MicroBatch& b : batches) {
    (void)rig.run({b});
    for (const auto& [name, gradient] : gradients_of(rig)) {
      sum[name].resize(gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        sum[name][i] += gradient[i];
      }
    }
  }
  (void)rig.run(batches);
  for (const auto& [name, want] : sum) {
    EXPECT_CLOSE(rig.gradient(name), want, {.rtol = 1e-12, .atol = 1e-14}) << name;
  }
}

TEST(Pass, SchedulesGiveTheSameBits) {
  std::map<std::string, Rig::Values> first;
  for (const char* schedule : {"1f1b", "gpipe"}) {
    RigShape shape{.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 2};
    shape.schedule = schedule;
    Rig rig(testing::tiny_spec(), shape);
    std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 3);
    (void)rig.run(testing::micro_batches(tokens, 0.1));
    for (const auto& [name, gradient] : gradients_of(rig)) {
      EXPECT_BITS_EQ(gradient, first.emplace(name, gradient).first->second) << name;
    }
  }
}

TEST(NumericsFailures, N01AnIgnoredMicroBatchAddsNothing) {
  for (const RigShape& shape : kShapes) {
    for (const std::size_t ignored : {0U, 1U}) {
      Rig rig(testing::tiny_spec(), shape);
      std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 2);
      std::vector<Tokens> rest = tokens;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(ignored));
      const double without = rig.run(testing::micro_batches(rest, 0.1));
      const auto want = gradients_of(rig);
      ignore_all(tokens[ignored]);
      EXPECT_EQ(rig.run(testing::micro_batches(tokens, 0.1)), without);
      for (const auto& [name, gradient] : want) {
        EXPECT_EQ(rig.gradient(name), gradient) << name;  // == : a zero's sign may differ
      }
    }
  }
}

TEST(NumericsFailures, N08ALabelOutsideTheVocabularyIsNamed) {
  for (const RigShape& shape : kShapes) {
    for (const std::int32_t label : {256, -1, -99}) {
      Rig rig(testing::tiny_spec(), shape);
      const auto outside = static_cast<std::int32_t>(label == 256 ? rig.spec.vocabulary : label);
      std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary, 1);
      const auto batch = static_cast<std::size_t>(rig.runner.model().context.shape.batch);
      tokens[0].targets[2 * batch + 1] = outside;
      try {
        (void)rig.run(testing::micro_batches(tokens, 0.1));
        ADD_FAILURE() << "label " << outside << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::bad_input);
        EXPECT_NE(std::string(error.what())
                      .find("label " + std::to_string(outside) +
                            " of sample 1 of the micro-batch, "
                            "position 2"),
                  std::string::npos)
            << error.what();
      }
      tokens[0].targets[2 * batch + 1] = kernels::kIgnore;
      EXPECT_GT(rig.run(testing::micro_batches(tokens, 0.1)), 0);
    }
  }
}

TEST(NumericsFailures, N01AnIgnoredDataShardAddsNothing) {
  const RigShape shape{.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 2};
  const RigShape one{.backend = Backend::cpu, .dtype = DType::f32, .tensor = 2, .data = 1};
  Rig two(testing::tiny_spec(), shape);
  Rig single(testing::tiny_spec(), one);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, two.spec.vocabulary);
  ignore_all(tokens[1]);
  std::vector<Tokens> first = {tokens[0]};
  EXPECT_EQ(two.run(testing::micro_batches(tokens, 0.1)),
            single.run(testing::micro_batches(first, 0.1)));
  for (const std::string& name : two.names()) {
    EXPECT_EQ(two.gradient(name), single.gradient(name)) << name;
  }
}

TEST(NumericsFailures, N01AStepWithoutATargetHasZeroGradients) {
  for (const RigShape& shape : kShapes) {
    Rig rig(testing::tiny_spec(), shape);
    std::vector<Tokens> tokens = testing::draw_tokens(shape, rig.spec.vocabulary);
    std::for_each(tokens.begin(), tokens.end(), ignore_all);
    EXPECT_EQ(rig.run(testing::micro_batches(tokens, 1)), 0);
    for (const auto& [name, gradient] : gradients_of(rig)) {
      EXPECT_EQ(gradient, Rig::Values(gradient.size(), 0)) << name;
    }
  }
}

// Two sequences with 1 and 5 valid targets: one micro-batch of both, or one after the other, or on
// two data shards.
TEST(NumericsFailures, N06UnevenTokensCountByTokens) {
  const RigShape together{.batch = 2};
  Rig rig(testing::tiny_spec(), together);
  std::vector<Tokens> both = testing::draw_tokens(together, rig.spec.vocabulary);
  for (dim_t t = 1; t < together.positions; ++t) {
    both[0].targets[static_cast<std::size_t>(2 * t)] =
        -100;  // sample 0 keeps its first target only
  }
  const double loss = rig.run(testing::micro_batches(both, 1.0 / 6));
  const auto want = gradients_of(rig);
  for (const int data : {1, 2}) {
    Rig cut(testing::tiny_spec(), {.data = data, .batch = 1});
    std::vector<Tokens> tokens(2);
    for (std::size_t s = 0; s < 2; ++s) {
      tokens[s].data_shard = data == 2 ? static_cast<dim_t>(s) : 0;
      for (std::size_t t = 0; t < 5; ++t) {
        tokens[s].ids.push_back(both[0].ids[2 * t + s]);
        tokens[s].targets.push_back(both[0].targets[2 * t + s]);
      }
    }
    EXPECT_NEAR(cut.run(testing::micro_batches(tokens, 1.0 / 6)), loss, 1e-12);
    for (const auto& [name, gradient] : want) {
      EXPECT_CLOSE(cut.gradient(name), gradient, {.rtol = 1e-10, .atol = 1e-14}) << name;
    }
  }
}

}  // namespace
}  // namespace cambium
