// model/inventory.hpp — every parameter of a spec, with its axes. Partition, initial values,
// checkpoint, optimizer and growth all read this one list.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "model/spec.hpp"

namespace cambium::model {

enum class Cut : std::uint8_t { replicated, rows, cols };  // over logical tensor shards
enum class Init : std::uint8_t { normal, ones, zeros };

// Elements of a 1-D parameter that are one grain (design.md §1.7); of a matrix it is a row.
inline constexpr dim_t kVectorGrain = 4096;

struct ParameterSpec {
  std::string name;  // its position; changes under growth
  std::uint64_t uid = 0;
  bool is_vector = false;  // rows == 1
  dim_t rows = 0;
  dim_t cols = 0;
  Cut cut = Cut::replicated;
  dim_t units = 1;  // on the cut axis; a unit is never split
  Init init = Init::normal;
  double init_std = 0;
  bool has_decay = false;     // matrices only
  bool is_looked_up = false;  // its rows are only copied or added: no product reads it
  dim_t leaf_elements =
      0;  // replicated ones: columns of a token-sum leaf (a scalar gate: the hidden width)

  [[nodiscard]] dim_t elements() const {
    return rows * cols;
  }
};

// Whether a product reads it, so that it is kept packed.
[[nodiscard]] inline bool is_multiplied(const ParameterSpec& p) {
  return !p.is_vector && !p.is_looked_up;
}

// The rectangle of `p` that logical shard `shard` of `shards` holds.
struct Rectangle {
  Range rows;
  Range cols;
};

[[nodiscard]] Rectangle shard_of(const ParameterSpec& p, dim_t shards, dim_t shard);

// A decoder layer's parameters; which of them a layer has, its spec says.
enum class LayerParameter : std::uint8_t {
  attention_norm,
  attention_norm_bias,
  q,
  q_bias,
  k,
  k_bias,
  v,
  v_bias,
  o,
  o_bias,
  mlp_norm,
  mlp_norm_bias,
  gate,
  up,
  up_bias,
  down,
  down_bias
};
inline constexpr std::size_t kLayerParameters = 17;

// Those of `layer`, in the order in which its entity lists them and its uids count them.
[[nodiscard]] std::vector<LayerParameter> layer_parameters(const LayerSpec& layer);

enum class EntityKind : std::uint8_t { embedding, positions, layer, block, norm, head, classifier };

// Parameters that are born, moved and updated together: a layer, an inserted block, the table, …
struct Entity {
  std::uint64_t uid = 0;
  EntityKind kind = EntityKind::layer;
  dim_t layer =
      0;  // the layer it lives in; -1: before the first, number of layers: behind the last
  Birth birth;
  bool born_closed = false;
  std::vector<ParameterSpec> parameters;
};

// In the order of execution.
[[nodiscard]] std::vector<Entity> inventory(const Spec& spec);

[[nodiscard]] dim_t parameter_count(const std::vector<Entity>& entities);

// Value of element (row, col) at birth: a pure function of (seed, uid, coordinates), so the same on
// every layout.
[[nodiscard]] double initial_value(const ParameterSpec& p,
                                   std::uint64_t seed,
                                   dim_t row,
                                   dim_t col);

}  // namespace cambium::model
