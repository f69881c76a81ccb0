// tests/mpi/host_name_test.cpp — row M10: a host's name of any length is taken whole and never
// written past its buffer. The linker takes this file's gethostname before the system's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/utsname.h>
#include <unistd.h>

#include "comm/world.hpp"

namespace {

std::string host_name;  // empty: the real one

}  // namespace

// As glibc does it: a name that does not fit is cut, without a zero behind it.
extern "C" int gethostname(char* name, size_t size) noexcept {
  utsname real{};
  ::uname(&real);
  const std::string text = host_name.empty() ? real.nodename : host_name;
  std::memcpy(name, text.c_str(), std::min(size, text.size() + 1));
  if (text.size() >= size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return 0;
}

namespace cambium::comm {
namespace {

// A world of this process alone, whoever started it.
std::string host_of_a_lone_world() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    ::unsetenv(name);
  }
  return World(nullptr, nullptr).host();
}

TEST(HostName, M10IsTakenWholeAndNeverOverflows) {
  const auto launched = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string size = launched("OMPI_COMM_WORLD_SIZE");
  const std::string rank = launched("PMIX_RANK");
  for (const std::size_t length : {1, 63, 64, 255}) {
    host_name = std::string(length, 'h');
    EXPECT_EQ(host_of_a_lone_world(), host_name);
  }
  host_name = std::string(1000, 'h');
  EXPECT_EQ(host_of_a_lone_world(), "unknown host");
  host_name.clear();
  if (!size.empty()) {
    ::setenv("OMPI_COMM_WORLD_SIZE", size.c_str(), 1);
  }
  if (!rank.empty()) {
    ::setenv("PMIX_RANK", rank.c_str(), 1);
  }
}

}  // namespace
}  // namespace cambium::comm
