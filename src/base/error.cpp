// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <cstring>

namespace cambium {

void check_failed(const char* condition, const char* file, int line, const std::string& what) {
  const char* slash = std::strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  throw Error(Code::bug,
              std::string(name) + ":" + std::to_string(line) + ": broken invariant: " + condition +
                  (what.empty() ? "" : " (" + what + ")"));
}

}  // namespace cambium
