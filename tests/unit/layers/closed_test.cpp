// unit/layers/closed_test.cpp — what growth inserts is absent until its first update: the function,
// and every gradient of what was there before, keep their bits; what is inserted gets exactly the
// gradients that open it (methods.md §1.2 a, b).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

#include "growth/operation.hpp"
#include "support/bits.hpp"
#include "support/rig.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using device::Backend;
using device::DType;
using testing::Rig;
using testing::Tokens;

constexpr double kScale = 1.0 / 10;

bool is_zero(const Rig::Values& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return x == 0; });
}

// Of the activations.
template <typename T>
T stored(float value) {
  if constexpr (std::is_same_v<T, device::BFloat16>) {
    return device::round_to_bf16(value);
  } else {
    return value;
  }
}

// Logits, loss and gradients of what both have.
void expect_same_function(Rig& old, Rig& grown, std::vector<Tokens>& tokens) {
  EXPECT_BITS_EQ(grown.logits(tokens[0]), old.logits(tokens[0]));
  const double before = old.run(testing::micro_batches(tokens, kScale));
  const double after = grown.run(testing::micro_batches(tokens, kScale));
  EXPECT_BITS_EQ(after, before);
}

void expect_same_gradients(Rig& old,
                           Rig& grown,
                           const std::function<std::string(const std::string&)>& new_name) {
  for (const std::string& name : old.names()) {
    EXPECT_BITS_EQ(grown.gradient(new_name(name)), old.gradient(name)) << name;
  }
}

class Closed : public ::testing::TestWithParam<std::tuple<Backend, int, DType>> {
 protected:
  testing::RigShape shape{.backend = std::get<0>(GetParam()),
                          .dtype = std::get<2>(GetParam()),
                          .tensor = std::get<1>(GetParam())};
};

void expect_blocks_are_absent(const testing::RigShape& shape, const model::Spec& spec) {
  Rig old(spec, shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, spec.vocabulary);
  for (const std::string& module : model::insertion_points(spec)) {
    SCOPED_TRACE(module);
    Rig grown(testing::with_blocks(spec, {module, module}),
              shape);  // a vector gate, then a scalar one
    expect_same_function(old, grown, tokens);
    expect_same_gradients(old, grown, [](const std::string& name) { return name; });
    for (const std::string& block : {module + ".inserted.0.", module + ".inserted.1."}) {
      EXPECT_FALSE(is_zero(grown.gradient(block + "gate"))) << block;
      EXPECT_TRUE(is_zero(grown.gradient(block + "a.weight"))) << block;
      EXPECT_TRUE(is_zero(grown.gradient(block + "b.weight"))) << block;
      EXPECT_TRUE(is_zero(grown.gradient(block + "norm.weight"))) << block;
    }
  }
}

TEST_P(Closed, ABlockBehindAnyModuleIsAbsentAndItsGateLearns) {
  for (const model::Spec& spec : testing::tiny_specs()) {
    SCOPED_TRACE(spec.family);
    expect_blocks_are_absent(shape, spec);
  }
}

TEST_P(Closed, ABlockThatIsOpenCounts) {
  const model::Spec spec = testing::tiny_spec();
  Rig old(spec, shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, spec.vocabulary);
  for (const std::string& module : model::insertion_points(spec)) {
    SCOPED_TRACE(module);
    Rig grown(testing::with_blocks(spec, {module}), shape);
    const std::string block = module + ".inserted.0.";
    grown.set_value(block + "gate", Rig::Values(12, 0.5));
    EXPECT_BITS_EQ(grown.logits(tokens[0]),
                   old.logits(tokens[0]));  // still closed: a gate is not looked at
    grown.set_updates(block, 1);
    EXPECT_NE(grown.logits(tokens[0]), old.logits(tokens[0]));
    (void)grown.run(testing::micro_batches(tokens, kScale));
    EXPECT_FALSE(is_zero(grown.gradient(block + "a.weight")));
    EXPECT_FALSE(is_zero(grown.gradient(block + "b.weight")));
    EXPECT_FALSE(is_zero(grown.gradient(block + "norm.weight")));
  }
}

// x + 0 * r is not x where r is infinite: absent means not added.
TEST_P(Closed, ABranchThatOverflowsChangesNoLogit) {
  const model::Spec spec = testing::tiny_spec();
  Rig old(spec, shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, spec.vocabulary);
  Rig grown(testing::with_blocks(spec, {"layers.0.mlp"}), shape);
  grown.set_value("layers.0.mlp.inserted.0.b.weight", Rig::Values(12 * 7, 3e38));
  EXPECT_BITS_EQ(grown.logits(tokens[0]), old.logits(tokens[0]));
  const double loss = grown.run(testing::micro_batches(tokens, kScale));
  EXPECT_BITS_EQ(loss, old.run(testing::micro_batches(tokens, kScale)));
}

void expect_layers_are_absent(const testing::RigShape& shape, const model::Spec& spec) {
  Rig old(spec, shape);
  std::vector<Tokens> tokens = testing::draw_tokens(shape, spec.vocabulary);
  for (dim_t after = -1; after < 2; ++after) {
    SCOPED_TRACE(after);
    Rig grown(growth::grow(spec, {config::InsertLayers{.after = after}}, 1), shape);
    expect_same_function(old, grown, tokens);
    expect_same_gradients(old, grown, [&](const std::string& name) {
      if (!testing::begins_with(name, "layers.")) {
        return name;
      }
      const dim_t index = name[7] - '0';
      return "layers." + std::to_string(index > after ? index + 1 : index) + name.substr(8);
    });
    const std::string layer = "layers." + std::to_string(after + 1) + ".";
    for (const std::string& name : grown.names()) {
      if (testing::begins_with(name, layer)) {
        const bool is_out =
            testing::ends_with(name, ".o.weight") || testing::ends_with(name, ".down.weight") ||
            testing::ends_with(name, ".o.bias") || testing::ends_with(name, ".down.bias");
        EXPECT_EQ(is_zero(grown.gradient(name)), !is_out) << name;
      }
    }
  }
}

TEST_P(Closed, ALayerAnywhereIsAbsentAndItsProjectionsLearn) {
  for (const model::Spec& spec : testing::tiny_specs()) {
    SCOPED_TRACE(spec.family);
    expect_layers_are_absent(shape, spec);
  }
}

// The block by itself, on values that an addition would change: negative zero, infinity, a
// denormal.
template <typename T>
void expect_handed_on(const testing::RigShape& shape) {
  const model::Spec spec = testing::with_blocks(testing::tiny_spec(), {"layers.0.mlp"});
  Rig rig(spec, shape);
  layers::TensorContext& context = rig.runner.model().context;
  const model::InsertedBlock& block_spec =
      spec.layers[0].inserted[static_cast<int>(model::LayerModule::mlp)][0];
  device::Arena arena("test");
  layers::GatedBlock block(block_spec, *rig.store.find(block_spec.uid), context);
  layers::GatedBlock::Saved saved;
  layers::MemoryPlan plan;
  block.plan_gradients(plan);
  block.plan_saved(saved, plan, plan);
  const device::Buffer memory = plan.allocate(arena);
  ASSERT_TRUE(block.is_closed());
  const dim_t rows = context.rows();
  std::vector<T> x(static_cast<std::size_t>(rows * spec.hidden), stored<T>(-0.0F));
  x[1] = stored<T>(1e-39F);
  x[2] = stored<T>(1.5F);
  std::vector<T> dy = x;
  dy[3] = stored<T>(std::numeric_limits<float>::infinity());
  std::vector<T> dx(x.size(), stored<T>(7.0F));
  const auto view = [&](std::vector<T>& v) { return device::view_of(v.data(), rows, spec.hidden); };
  rig.runner.sync().begin_step();
  EXPECT_EQ(block.forward(view(x), saved, layers::Mode::forward_only).data, x.data());
  EXPECT_EQ(block.forward(view(x), saved, layers::Mode::train).data, x.data());
  block.backward_input(view(dy), saved, view(dx));
  EXPECT_EQ(std::memcmp(dx.data(), dy.data(), sizeof(T) * dx.size()), 0);
}

TEST_P(Closed, ABlockHandsOnItsInputAndItsGradientBitForBit) {
  if (shape.dtype == DType::bf16) {
    expect_handed_on<device::BFloat16>(shape);
  } else {
    expect_handed_on<float>(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends,
                         Closed,
                         ::testing::Combine(::testing::Values(Backend::reference, Backend::cpu),
                                            ::testing::Values(1, 2),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& entry) {
                           return std::string(device::name_of(std::get<0>(entry.param))) +
                                  "Tensor" + std::to_string(std::get<1>(entry.param)) +
                                  (std::get<2>(entry.param) == DType::bf16 ? "Bf16" : "");
                         });

}  // namespace
}  // namespace cambium
