// base/error.hpp — one exception class; its code is the exit status that a job script acts on.
// Codes: design.md §4. Message form: `where: what, expected, got, hint`, lower case, no newline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace cambium {

enum class Code : int {
  usage = 2,  // command line or config; all problems listed
  does_not_fit = 3,
  bad_input = 4,  // data or checkpoint content
  comm = 10,      // peer
  device = 11,    // driver
  storage = 12,   // disk
  numbers = 13,   // not finite after the policy gave up
  bug = 14,       // broken invariant
  no_progress = 15,
  stopped = 75,  // on request, checkpoint written
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] Code code() const noexcept {
    return code_;
  }

 private:
  Code code_;
};

// Throws Error(bug) with the place. Use CAMBIUM_CHECK.
[[noreturn]] void check_failed(const char* condition,
                               const char* file,
                               int line,
                               const std::string& what);

}  // namespace cambium

// A broken invariant off the hot path; always on.
#define CAMBIUM_CHECK(condition, what)                                 \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::cambium::check_failed(#condition, __FILE__, __LINE__, (what)); \
    }                                                                  \
  } while (false)

// A broken invariant on a hot path; only with CAMBIUM_ASSERTIONS.
#ifdef CAMBIUM_ASSERTIONS
#define CAMBIUM_ASSERT(condition) CAMBIUM_CHECK(condition, "")
#else
#define CAMBIUM_ASSERT(condition) ((void)0)
#endif
