// mpi/step_allocation_test.cpp — a steady step takes no memory on real ranks either, whatever the
// mesh.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/mpi_main.hpp"
#include "support/step_allocations.hpp"

namespace cambium {
namespace {

TEST(Step, TakesNoMemoryOnceItRunsOnRanks) {
  const std::vector<comm::PhysicalMesh> meshes = {{.tensor = 2, .pipeline = 2},
                                                  {.pipeline = 2, .data = 2},
                                                  {.tensor = 2, .data = 2},
                                                  {.data = 4}};
  for (const comm::PhysicalMesh& mesh : meshes) {
    for (const bool is_sharded : {true, false}) {
      const int made = testing::allocations_of_steady_step(testing::world().make_mesh_groups(mesh),
                                                           mesh,
                                                           testing::world().rank(),
                                                           {.tensor = 2, .data = 4},
                                                           is_sharded);
      const int gpt2 = testing::allocations_of_steady_step(testing::world().make_mesh_groups(mesh),
                                                           mesh,
                                                           testing::world().rank(),
                                                           {.tensor = 2, .data = 4},
                                                           is_sharded,
                                                           true);
      EXPECT_EQ(gpt2, 0) << "gpt2";
      EXPECT_EQ(made, 0) << mesh.tensor << " x " << mesh.pipeline << " x " << mesh.data << ", "
                         << (is_sharded ? "sharded" : "whole") << " optimizer";
    }
  }
}

}  // namespace
}  // namespace cambium
