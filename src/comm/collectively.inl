// comm/collectively.inl — the template behind collectively.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

namespace cambium::comm {
namespace detail {

// Code and text of the exception in flight; call it inside a catch block only.
[[nodiscard]] std::pair<Code, std::string> describe_current_exception(const std::string& what);

}  // namespace detail

template <typename F>
auto collectively(Group& group, const std::string& what, F&& work) -> decltype(work()) {
  using Result = decltype(work());
  static_assert(!std::is_reference_v<Result>, "a result of collectively is a value");
  std::optional<std::pair<Code, std::string>> failure;
  if constexpr (std::is_void_v<Result>) {
    try {
      work();
    } catch (...) {
      failure = detail::describe_current_exception(what);
    }
    agree(group, what, failure);
  } else {
    std::optional<Result> result;
    try {
      result.emplace(work());
    } catch (...) {
      failure = detail::describe_current_exception(what);
    }
    agree(group, what, failure);
    return std::move(*result);
  }
}

}  // namespace cambium::comm
