// SPDX-License-Identifier: Apache-2.0
#include "comm/collectively.hpp"

#include <array>
#include <cstdint>
#include <new>

namespace cambium::comm {

namespace detail {

std::pair<Code, std::string> describe_current_exception(const std::string& what) {
  try {
    throw;
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {Code::does_not_fit,
            what + ": out of memory; use more ranks or a smaller micro_batch_size"};
  } catch (const std::exception& e) {
    return {Code::bug, what + ": unexpected exception: " + e.what()};
  } catch (...) {
    return {Code::bug, what + ": unexpected exception of unknown type"};
  }
}

}  // namespace detail

void agree(Group& group,
           const std::string& what,
           const std::optional<std::pair<Code, std::string>>& failure) {
  std::int64_t failed = failure ? group.rank() : group.size();
  try {
    group.all_reduce(std::span(&failed, 1), Reduce::min);
    if (failed == group.size()) {
      return;
    }
    const auto root = static_cast<int>(failed);
    std::array<std::int64_t, 2> head{};  // code, length
    std::string text;
    if (root == group.rank()) {
      text = failure->second;
      head = {static_cast<std::int64_t>(failure->first), static_cast<std::int64_t>(text.size())};
    }
    group.broadcast(head.data(), sizeof head, root);
    text.resize(static_cast<std::size_t>(head[1]));
    group.broadcast(text.data(), text.size(), root);
    throw AgreedError(static_cast<Code>(head[0]), text, root);
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& e) {
    // The vote itself failed, so nobody can know of anything: an own failure is the better story.
    if (failure) {
      throw Error(failure->first, failure->second);
    }
    throw Error(e.code(), what + ": " + e.what());
  }
}

}  // namespace cambium::comm
