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
      for (const device::DType dtype : {device::DType::f32, device::DType::bf16}) {
        for (const bool is_gpt2 : {false, true}) {
          const int made =
              testing::allocations_of_steady_step(testing::world().make_mesh_groups(mesh),
                                                  mesh,
                                                  testing::world().rank(),
                                                  {.tensor = 2, .data = 4},
                                                  is_sharded,
                                                  dtype,
                                                  is_gpt2);
          EXPECT_EQ(made, 0) << mesh.tensor << " x " << mesh.pipeline << " x " << mesh.data << ", "
                             << (is_sharded ? "sharded" : "whole") << " optimizer, "
                             << device::bytes_of(dtype) << " bytes an activation, "
                             << (is_gpt2 ? "gpt2" : "llama");
        }
      }
    }
  }
}

}  // namespace
}  // namespace cambium
