// device/bfloat16.hpp — bf16 as kernels store it: the upper half of an f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace cambium::device {

// A plain value without arithmetic: kernels widen it, compute in f32 and round once.
struct BFloat16 {
  std::uint16_t bits = 0;

  bool operator==(const BFloat16&) const = default;
};

[[nodiscard]] constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// To nearest, ties to even; what is too large becomes infinity. A NaN stays one: its upper half,
// made quiet. Denormals count.
[[nodiscard]] constexpr BFloat16 round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

}  // namespace cambium::device
