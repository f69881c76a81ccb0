// kernels/cpu/product_bf16_self_test.cpp — is `vdpbf16ps` here, and is it the chain that the
// contract names? One tile of it against the widened one, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/product_tile.hpp"

namespace cambium::kernels::cpu {
namespace {

constexpr int kRows = 8;
constexpr dim_t kSum = 32;
using Outputs = std::array<float, kRows * kPanelWidth>;

struct Operands {
  float a[kSum * kRows];
  float b[kSum * kPanelWidth];
  Outputs start;
};

std::uint32_t next_bits(std::uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<std::uint32_t>(state >> 32);
}

// Two bf16 of any sign whose exponents lie in [low, low + 31].
float some_pair(std::uint64_t& state, unsigned low) {
  const std::uint32_t bits = next_bits(state);
  const auto half = [&](std::uint32_t b) {
    return (b & 0x807fU) | ((low + ((b >> 7) & 31U)) << 7);
  };
  return std::bit_cast<float>(half(bits & 0xffffU) | (half(bits >> 16) << 16));
}

// Exponents of A and B that make the products ordinary, near the smallest normal, and denormal
// factors themselves.
Operands some_operands(std::uint64_t seed) {
  constexpr unsigned kExponents[3][2] = {{112, 112}, {48, 49}, {0, 110}};
  const auto& low = kExponents[seed % 3];
  Operands o;
  std::uint64_t state = seed;
  for (float& unit : o.a) {
    unit = some_pair(state, low[0]);
  }
  for (float& unit : o.b) {
    unit = some_pair(state, low[1]);
  }
  for (float& value : o.start) {
    const std::uint32_t bits = next_bits(state);
    const std::uint32_t exponent = seed % 3 == 0 ? 120 : bits % 3;
    value = std::bit_cast<float>((bits & 0x807fffffU) | (exponent << 23));
  }
  return o;
}

// The chains of all 8 x 48 outputs by one kernel, in pieces of its own tile.
Outputs run(const TileKernel& kernel, const Operands& o) {
  Outputs out{};
  float a[kSum * kRows];
  for (int row = 0; row < kRows; row += kernel.rows) {
    for (dim_t s = 0; s < kSum; ++s) {
      std::memcpy(a + s * kernel.rows,
                  o.a + s * kRows + row,
                  static_cast<std::size_t>(kernel.rows) * sizeof(float));
    }
    for (int column = 0; column < kPanelWidth; column += kernel.columns) {
      const dim_t at = row * kPanelWidth + column;
      kernel.functions[kernel.rows - 1](kSum,
                                        a,
                                        o.b + column,
                                        kernel.columns,
                                        {.start = o.start.data() + at,
                                         .start_stride = kPanelWidth,
                                         .bias = nullptr,
                                         .add = nullptr,
                                         .add_stride = 0,
                                         .add_is_bf16 = false,
                                         .out_is_bf16 = false,
                                         .out = out.data() + at,
                                         .out_stride = kPanelWidth});
    }
  }
  return out;
}

bool try_instruction() {
  if (!is_supported(Isa::avx512) || !__builtin_cpu_supports("avx512bf16")) {
    return false;
  }
  static_assert(kRows % 4 == 0);
  set_float_mode();
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Operands o = some_operands(seed);
    const Outputs by_instruction = run(tile_bf16_avx512(), o);
    const Outputs widened = run(tile_bf16_avx2(), o);
    if (std::memcmp(by_instruction.data(), widened.data(), sizeof(Outputs)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool has_exact_bf16_instruction() {
  static const bool found = try_instruction();
  return found;
}

}  // namespace cambium::kernels::cpu
