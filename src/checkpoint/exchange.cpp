// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/exchange.hpp"

#include <numeric>

namespace cambium::checkpoint {
namespace {

std::vector<std::size_t> gather_sizes(comm::Group& group, std::size_t mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> sizes(ranks);
  const std::vector<std::size_t> widths(ranks, sizeof(std::int64_t));
  const auto sent = static_cast<std::int64_t>(mine);
  group.all_gather(&sent, widths, sizes.data());
  return {sizes.begin(), sizes.end()};
}

}  // namespace

void broadcast_text(comm::Group& group, std::string& text) {
  auto size = static_cast<std::int64_t>(text.size());
  group.broadcast(&size, sizeof size, 0);
  text.resize(static_cast<std::size_t>(size));
  group.broadcast(text.data(), text.size(), 0);
}

std::vector<std::vector<std::int64_t>> gather_numbers(comm::Group& group,
                                                      std::span<const std::int64_t> mine) {
  const std::vector<std::size_t> bytes = gather_sizes(group, mine.size_bytes());
  std::vector<std::int64_t> all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) /
                                sizeof(std::int64_t));
  group.all_gather(mine.data(), bytes, all.data());
  std::vector<std::vector<std::int64_t>> by_rank;
  auto begin = all.begin();
  for (const std::size_t b : bytes) {
    const auto end = begin + static_cast<std::ptrdiff_t>(b / sizeof(std::int64_t));
    by_rank.emplace_back(begin, end);
    begin = end;
  }
  return by_rank;
}

std::string gather_text(comm::Group& group, const std::string& mine) {
  const std::vector<std::size_t> bytes = gather_sizes(group, mine.size());
  std::string all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), '\0');
  group.all_gather(mine.data(), bytes, all.data());
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

}  // namespace cambium::checkpoint
