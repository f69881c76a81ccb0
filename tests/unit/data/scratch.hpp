// tests/unit/data/scratch.hpp — files in a folder that goes with the test, and the message of a
// refusal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace cambium::data::testing {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "cambium-data-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  [[nodiscard]] const std::filesystem::path& folder() const {
    return folder_;
  }

 private:
  std::filesystem::path folder_;
};

template <typename F>
std::string refusal(const F& call, Code code = Code::bad_input) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

}  // namespace cambium::data::testing
