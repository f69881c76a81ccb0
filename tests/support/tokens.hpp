// tests/support/tokens.hpp — the shape of a test's network run, and micro-batches of drawn tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/philox.hpp"
#include "comm/world.hpp"
#include "engine/micro_batch.hpp"
#include "params/param_store.hpp"

namespace cambium::testing {

struct RigShape {
  device::Backend backend = device::Backend::reference;
  device::DType dtype = device::DType::f64;  // of activations; masters are never narrower than f32
  int tensor = 1;                            // logical shards
  int data = 1;
  dim_t batch = 2;
  dim_t positions = 5;
  bool is_sharded = true;
  std::uint64_t seed = 7;
  std::string schedule = "1f1b";
};

// One language-model micro-batch, position-major.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> targets;
  dim_t data_shard = 0;
};

[[nodiscard]] inline comm::MeshGroups self_groups() {
  return {.tensor = comm::make_self_group("tensor"),
          .pipeline = comm::make_self_group("pipeline"),
          .data = comm::make_self_group("data"),
          .stage = comm::make_self_group("stage")};
}

[[nodiscard]] inline params::Partition partition_of(const model::Spec& spec,
                                                    const RigShape& shape) {
  return {.logical = {.tensor = shape.tensor, .data = shape.data},
          .physical = {},
          .place = {},
          .stages = model::plan_stages(spec, 1)};
}

[[nodiscard]] inline params::StoreShape store_shape_of(const RigShape& shape) {
  return {.dtype = layers::TensorShape{.dtype = shape.dtype}.sums(),
          .is_sharded = shape.is_sharded,
          .backend = shape.backend,
          .panels = shape.dtype};
}

// `per_shard` micro-batches for each data shard, ids and targets drawn.
[[nodiscard]] inline std::vector<Tokens> draw_tokens(const RigShape& shape,
                                                     dim_t vocabulary,
                                                     dim_t per_shard = 1) {
  std::vector<Tokens> out;
  for (dim_t i = 0; i < per_shard * shape.data; ++i) {
    const RandomStream random(shape.seed, Purpose::probe, static_cast<std::uint64_t>(i));
    Tokens t{.data_shard = i / per_shard};
    const auto draw = [&](dim_t at) {
      return static_cast<std::int32_t>(
          random.below_at(static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(vocabulary)));
    };
    const dim_t tokens = shape.batch * shape.positions;
    for (dim_t at = 0; at < tokens; ++at) {
      t.ids.push_back(draw(at));
      t.targets.push_back(draw(tokens + at));
    }
    out.push_back(std::move(t));
  }
  return out;
}

[[nodiscard]] inline std::vector<engine::MicroBatch> micro_batches(
    std::vector<Tokens>& tokens, double scale, layers::Mode mode = layers::Mode::train) {
  std::vector<engine::MicroBatch> out;
  for (Tokens& t : tokens) {
    out.push_back(
        {.mode = mode,
         .data_shard = t.data_shard,
         .ids = device::view_of(t.ids.data(), static_cast<dim_t>(t.ids.size())),
         .targets = device::view_of(t.targets.data(), static_cast<dim_t>(t.targets.size())),
         .scale = scale});
  }
  return out;
}

}  // namespace cambium::testing
