// SPDX-License-Identifier: Apache-2.0
#include "metrics/lines.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

namespace cambium::metrics {

namespace fs = std::filesystem;

std::vector<std::string> read_lines(const fs::path& path) {
  std::vector<std::string> lines;
  if (!fs::exists(path)) {
    return lines;
  }
  const std::string content = read_file(path);
  std::size_t begin = 0;
  while (begin < content.size()) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    lines.push_back(content.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string cut_torn_line(const fs::path& path) {
  if (!fs::exists(path)) {
    return {};
  }
  const std::string content = read_file(path);
  const std::size_t last_break = content.rfind('\n');
  const std::size_t whole = last_break == std::string::npos ? 0 : last_break + 1;
  if (whole == content.size()) {
    return {};
  }
  std::error_code error;
  fs::resize_file(path, whole, error);
  if (error) {
    throw Error(Code::storage, path.string() + ": cannot cut a torn line: " + error.message());
  }
  return content.substr(whole);
}

}  // namespace cambium::metrics
