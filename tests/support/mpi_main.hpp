// tests/support/mpi_main.hpp — the main of MPI tests: every rank runs every test in step.
// No collective reports a result: a rank prints its own failures and its exit code tells mpirun.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.hpp"

namespace cambium::testing {

// The world that main started.
[[nodiscard]] comm::World& world();

}  // namespace cambium::testing
