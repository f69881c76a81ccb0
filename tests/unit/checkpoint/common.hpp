// unit/checkpoint/common.hpp — a temporary folder, and errors as texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace cambium::checkpoint::testing {

namespace fs = std::filesystem;

// A fresh folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "cambium-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(Code::storage, name + ": cannot create temporary folder");
    }
    path_ = name;
  }

  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const fs::path& path() const {
    return path_;
  }

 private:
  fs::path path_;
};

// The message of the Error that `work` throws; its code must be `code`.
template <typename F>
std::string error_of(Code code, F&& work) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

}  // namespace cambium::checkpoint::testing
