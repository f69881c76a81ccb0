// tests/mpi/thread_level_test.cpp — an MPI library that grants less than we need is refused at
// start. The linker takes this file's MPI_Init_thread before the library's.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/world.hpp"

namespace {

int granted_level = MPI_THREAD_SINGLE;

}  // namespace

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  int is_initialized = 0;
  MPI_Initialized(&is_initialized);
  const int rc =
      is_initialized != 0 ? MPI_SUCCESS : PMPI_Init_thread(argc, argv, required, provided);
  *provided = granted_level;
  return rc;
}

namespace cambium::comm {
namespace {

TEST(World, M03RefusesALowThreadLevelNamingBoth) {
  granted_level = MPI_THREAD_SINGLE;
  try {
    const World world(nullptr, nullptr);
    ADD_FAILURE() << "the world was made";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::comm);
    EXPECT_THAT(e.what(),
                ::testing::HasSubstr("required MPI_THREAD_FUNNELED, granted MPI_THREAD_SINGLE"));
  }
}

TEST(World, M03FunneledIsEnough) {
  granted_level = MPI_THREAD_FUNNELED;
  World world(nullptr, nullptr);
  EXPECT_EQ(world.size(), 1);
  EXPECT_FALSE(world.is_alone());
}

}  // namespace
}  // namespace cambium::comm

int main(int argc, char** argv) {
  GTEST_FLAG_SET(color, "no");
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();  // the last world finalizes MPI
}
