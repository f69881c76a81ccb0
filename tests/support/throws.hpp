// tests/support/throws.hpp — what an Error says: its code, and words that its message must hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace cambium::testing {

template <typename F>
void expect_error(Code code, const std::vector<std::string>& words, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
          << "no \"" << word << "\" in: " << e.what();
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace cambium::testing
