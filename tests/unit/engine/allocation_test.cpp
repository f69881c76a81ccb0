// unit/engine/allocation_test.cpp — a steady step of one rank takes no memory: not by new, not for
// a buffer.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/step_allocations.hpp"

namespace cambium {
namespace {

using testing::allocations_of;

TEST(Allocations, AreCounted) {  // else the test below could not fail
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(4)); }), 1);
  EXPECT_EQ(allocations_of([] { const device::Buffer buffer(64); }), 1);
  EXPECT_EQ(allocations_of([] {}), 0);
}

TEST(Step, TakesNoMemoryOnceItRuns) {
  for (const device::DType dtype : {device::DType::f32, device::DType::bf16}) {
    for (const bool is_gpt2 : {false, true}) {
      for (const int shards : {1, 2}) {
        for (const bool is_sharded : {true, false}) {
          EXPECT_EQ(testing::allocations_of_steady_step(testing::self_groups(),
                                                        {},
                                                        0,
                                                        {.tensor = shards, .data = 3 * shards},
                                                        is_sharded,
                                                        dtype,
                                                        is_gpt2),
                    0)
              << shards << " tensor shards, " << (is_sharded ? "sharded" : "whole")
              << " optimizer, " << device::bytes_of(dtype) << " bytes an activation, "
              << (is_gpt2 ? "gpt2" : "llama");
        }
      }
    }
  }
}

}  // namespace
}  // namespace cambium
