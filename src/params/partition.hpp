// params/partition.hpp — this rank's share of everything: which logical shards it holds, which
// stage it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/topology.hpp"
#include "model/stages.hpp"

namespace cambium::params {

struct Partition {
  comm::LogicalMesh logical;
  comm::PhysicalMesh physical;
  comm::Coordinates place;
  model::StageMap stages;

  [[nodiscard]] Range tensor_shards() const {
    return share(logical.tensor, physical.tensor, place.tensor);
  }

  [[nodiscard]] Range data_shards() const {
    return share(logical.data, physical.data, place.data);
  }

  [[nodiscard]] bool is_first() const {
    return place.pipeline == 0;
  }

  [[nodiscard]] bool is_last() const {
    return place.pipeline == physical.pipeline - 1;
  }

  [[nodiscard]] int chunks() const {
    return stages.chunks;
  }

  // Layers of one of this rank's chunks.
  [[nodiscard]] Range layers(int chunk) const {
    return stages.layers_of(place.pipeline, chunk);
  }

  // Whether the entity in layer `layer` (-1 first, number of layers last) lives on this rank's
  // stage.
  [[nodiscard]] bool holds_layer(dim_t layer) const {
    return stages.stage_of(layer) == place.pipeline;
  }
};

}  // namespace cambium::params
