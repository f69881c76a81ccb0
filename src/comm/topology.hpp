// comm/topology.hpp — the logical mesh, the physical mesh, and this rank's place. Pure. Rank order:
// tensor fastest, then data, then pipeline, so that a tensor group is a node's neighbours: rank =
// (pipeline * data_size + data) * tensor_size + tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/types.hpp"

namespace cambium::comm {

struct LogicalMesh {
  int tensor = 1;
  int context = 1;
  int data = 1;

  bool operator==(const LogicalMesh&) const = default;
};

struct PhysicalMesh {
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int data = 1;

  [[nodiscard]] int ranks() const {
    return tensor * pipeline * context * data;
  }

  bool operator==(const PhysicalMesh&) const = default;
};

struct Coordinates {
  int tensor = 0;
  int data = 0;
  int pipeline = 0;
};

[[nodiscard]] Coordinates coordinates_of(const PhysicalMesh& mesh, int rank);
[[nodiscard]] int rank_of(const PhysicalMesh& mesh, Coordinates c);

// Throws Error(usage) when a physical size does not divide its logical one, naming the sizes that
// do.
void check_mesh(const LogicalMesh& logical, const PhysicalMesh& physical);

}  // namespace cambium::comm
