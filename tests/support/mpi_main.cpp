// SPDX-License-Identifier: Apache-2.0
#include "support/mpi_main.hpp"

#include <cstdio>
#include <gtest/gtest.h>
#include <sstream>

namespace cambium::testing {
namespace {

comm::World* the_world = nullptr;

// Ranks other than 0 say nothing but failures. A rank that left a test early is out of step with
// its peers, so the run ends there instead of hanging.
class RankListener : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      std::ostringstream line;
      line << "rank " << world().rank() << ": " << result << '\n';
      std::fputs(line.str().c_str(), stderr);
    }
  }

  void OnTestEnd(const ::testing::TestInfo& info) override {
    if (info.result()->HasFatalFailure()) {
      comm::raise_fault({},
                        Code::bug,
                        std::string("rank ") + std::to_string(world().rank()) + " left test " +
                            info.test_suite_name() + "." + info.name() + " early");
    }
  }
};

}  // namespace

comm::World& world() {
  return *the_world;
}

}  // namespace cambium::testing

int main(int argc, char** argv) {
  GTEST_FLAG_SET(color, "no");  // mpirun's output is a terminal, whatever ours is
  ::testing::InitGoogleTest(&argc, argv);
  cambium::comm::World world(&argc, &argv);
  cambium::testing::the_world = &world;
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (world.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
  }
  listeners.Append(new cambium::testing::RankListener);  // gtest owns it
  return RUN_ALL_TESTS();
}
