// config/families.hpp — every family, one line each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "config/families/gpt2.hpp"
#include "config/families/llama.hpp"

namespace cambium::config {

inline constexpr std::array kFamilies{families::kLlama, families::kGpt2};

[[nodiscard]] constexpr const FamilyTraits& traits_of(Family family) {
  for (const FamilyTraits& traits : kFamilies) {
    if (traits.family == family) {
      return traits;
    }
  }
  return kFamilies.front();
}

}  // namespace cambium::config
