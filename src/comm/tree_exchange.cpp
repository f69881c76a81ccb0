// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_exchange.hpp"

#include "base/error.hpp"

namespace cambium::comm {

using device::View;

TreeExchange::TreeExchange(Group& group, const ShardSum& sum, int tag)
    : group_(group), sum_(sum), tag_(tag) {
  requests_.reserve(2 * rounds_of(sum) * static_cast<std::size_t>(group.size() - 1));
}

std::size_t TreeExchange::workspace_bytes(dim_t own, device::DType dtype) const {
  return tree_tables_bytes(sum_, static_cast<std::size_t>(own) * device::bytes_of(dtype));
}

void TreeExchange::start(std::span<const View> nodes,
                         std::span<const Range> ranges,
                         View result,
                         device::Buffer& workspace) {
  CAMBIUM_CHECK(!is_under_way_, "an exchange was started before the last one had ended");
  CAMBIUM_CHECK(nodes.size() == sum_.local.nodes.size(), "one buffer a maximal subtree");
  CAMBIUM_CHECK(ranges.size() == static_cast<std::size_t>(group_.size()), "one range a rank");
  CAMBIUM_CHECK(ranges[static_cast<std::size_t>(sum_.rank)].size() == result.size(),
                "the result is not of the own range's size");
  CAMBIUM_CHECK(workspace.bytes() >= workspace_bytes(result.size(), result.dtype),
                "the workspace of an exchange is too small");
  is_under_way_ = true;
  tested_ = 0;
  result_ = result;
  tables_ = lay_tables(sum_, workspace.data());
  const auto range_of = [&](int r) { return ranges[static_cast<std::size_t>(r)]; };
  char* arrived = tables_.payload;
  for (std::size_t k = 0; k < rounds_of(sum_); ++k) {
    char* const first = arrived;
    arrived = lay_round(sum_, nodes, range_of, device::bytes_of(result.dtype), k, arrived, tables_);
    post_round(k, nodes, first);
  }
  spare_ = arrived;
}

// Rounds are posted in order, so that messages of one peer and tag match.
void TreeExchange::post_round(std::size_t k, std::span<const View> nodes, char* arrived) {
  const int ranks = group_.size();
  for (int r = 0; r < ranks; ++r) {
    const std::size_t bytes = tables_.received_bytes[static_cast<std::size_t>(r)];
    if (bytes > 0) {
      requests_.push_back(group_.receive(arrived, bytes, r, tag_));
      arrived += bytes;
    }
  }
  for (int i = 1; i < ranks; ++i) {  // each starts at its neighbour: no one is asked by all at once
    const int peer = (sum_.rank + i) % ranks;
    const auto p = static_cast<std::size_t>(peer);
    if (tables_.sent_bytes[p] > 0) {
      const auto* from = static_cast<const char*>(nodes[k].data) + tables_.sent_offsets[p];
      requests_.push_back(group_.send(from, tables_.sent_bytes[p], peer, tag_));
    }
  }
}

bool TreeExchange::test() {
  while (tested_ < requests_.size() && requests_[tested_].test()) {
    ++tested_;
  }
  return tested_ == requests_.size();
}

void TreeExchange::finish(device::Stream& stream) {
  CAMBIUM_CHECK(is_under_way_, "no exchange was started");
  for (Request& request : requests_) {
    request.wait();
  }
  requests_.clear();
  add_arrived(stream, sum_, tables_, spare_, result_.size(), result_.dtype, result_.data);
  is_under_way_ = false;
}

}  // namespace cambium::comm
