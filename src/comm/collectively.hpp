// comm/collectively.hpp — what all ranks do together, they fail together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/group.hpp"

namespace cambium::comm {

// Thrown on every rank with the code and text of the lowest rank that failed. main prints it on
// world rank 0 only.
class AgreedError : public Error {
 public:
  AgreedError(Code code, const std::string& message, int failed_rank)
      : Error(code, message), failed_rank_(failed_rank) {}

  [[nodiscard]] int failed_rank() const noexcept {
    return failed_rank_;
  }

 private:
  int failed_rank_;
};

// Collective over: group. If any rank has a failure, every rank throws the AgreedError of the
// lowest one; else returns.
void agree(Group& group,
           const std::string& what,
           const std::optional<std::pair<Code, std::string>>& failure);

// Runs `work` on every rank of the group, then agrees. No communication on `group` inside `work`.
// An Error keeps its code; std::bad_alloc becomes does_not_fit; any other exception becomes bug.
template <typename F>
auto collectively(Group& group, const std::string& what, F&& work) -> decltype(work());

}  // namespace cambium::comm

#include "comm/collectively.inl"
