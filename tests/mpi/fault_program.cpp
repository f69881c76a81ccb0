// tests/mpi/fault_program.cpp — a program that fails in the way its first argument names;
// fault_test.sh looks on. It treats errors as main of the product does.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "comm/collectively.hpp"
#include "comm/watchdog.hpp"
#include "comm/world.hpp"

namespace {

using namespace cambium;  // NOLINT: a test program of one file

// Steps of all_reduce; at step 3 `trouble` happens.
template <typename F>
void run_steps(comm::World& world, comm::Watchdog& watchdog, F&& trouble) {
  for (std::int64_t step = 1; step <= 5; ++step) {
    watchdog.beat(step, "forward");
    if (step == 3) {
      trouble();
    }
    std::array<double, 1000> values{};
    world.group().all_reduce(std::span<double>(values), comm::Reduce::sum);
  }
}

[[noreturn]] void hang() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

void fail(const std::string& mode, comm::World& world, comm::Watchdog& watchdog) {
  const int rank = world.rank();
  if (mode == "agreed") {
    comm::collectively(world.group(), "open data", [&] {
      if (rank >= 1) {
        throw Error(Code::bad_input,
                    fmt::format("rank {} ({}): data.jsonl: cannot open", rank, world.host()));
      }
    });
  }
  run_steps(world, watchdog, [&] {
    if ((mode == "one" && rank == 2) || mode == "all") {
      throw Error(Code::storage, "disk is gone");
    }
    if (mode == "unknown" && rank == 2) {
      throw std::out_of_range("index 7");
    }
    if (mode == "exit" && rank == 2) {
      ::_exit(14);
    }
    if (mode == "exit_zero" && rank == 3) {
      std::exit(0);  // NOLINT(concurrency-mt-unsafe): what a careless library does
    }
    if (mode == "kill" && rank == 2) {
      ::raise(SIGKILL);
    }
    if (mode == "hang" && rank == 1) {
      hang();
    }
  });
}

int run(const std::string& mode, const std::string& attempt_folder, comm::World& world) {
  const std::chrono::seconds limit(mode == "hang" ? 2 : 0);
  const std::string who = fmt::format("rank {} ({}): step 3: ", world.rank(), world.host());
  comm::Watchdog watchdog(world.rank(), world.host(), attempt_folder, limit);
  try {
    fail(mode, world, watchdog);
    return 0;
  } catch (const comm::AgreedError& e) {
    world.set_agreed();
    if (world.rank() == 0) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    return static_cast<int>(e.code());
  } catch (const Error& e) {
    comm::raise_fault(attempt_folder, e.code(), who + e.what());
  } catch (const std::exception& e) {
    comm::raise_fault(attempt_folder, Code::bug, who + "unexpected exception: " + e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fault_program MODE ATTEMPT_FOLDER\n");
    return 2;
  }
  comm::World world(&argc, &argv);
  return run(argv[1], argv[2], world);
}
