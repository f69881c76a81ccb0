// base/philox.hpp — counter-based random numbers: a value belongs to a thing, never to a rank.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox4x32-10.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/types.hpp"

namespace cambium {

using Philox4 = std::array<std::uint32_t, 4>;

// Ten rounds over a 128-bit counter under a 64-bit key.
[[nodiscard]] Philox4 philox(Philox4 counter, std::uint64_t key);

// What a number is for; part of the key, so that two uses never share a stream. Values are stored
// in runs: append only.
enum class Purpose : std::uint32_t {
  init = 1,
  order = 2,
  augment = 3,
  dropout = 4,
  split = 5,
  probe = 6,
  label = 7
};

// A stream of numbers named by (seed, purpose, a, b); element i of it is a pure function of i.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0);

  [[nodiscard]] std::uint64_t bits_at(std::uint64_t i) const;
  // [0, 1), 53 bits.
  [[nodiscard]] double uniform_at(std::uint64_t i) const;
  // Standard normal by Box-Muller in fp64; equal on every machine with a correctly rounded sqrt
  // (own log, cos).
  [[nodiscard]] double normal_at(std::uint64_t i) const;
  // [0, n) without modulo bias worth naming (64-bit multiply-shift).
  [[nodiscard]] std::uint64_t below_at(std::uint64_t i, std::uint64_t n) const;

 private:
  std::uint64_t key_;
  std::uint32_t high_;
};

// A permutation of [0, n), element i, without a table: a Feistel network over the next power of
// four, walked until it lands inside. Keyed by (seed, epoch): the data order of design.md §3.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

  [[nodiscard]] std::uint64_t at(std::uint64_t i) const;

 private:
  std::uint64_t n_;
  int half_bits_ = 0;
  std::uint64_t key_;
};

}  // namespace cambium
