// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <cmath>

#include "base/error.hpp"

namespace cambium {
namespace {

// A 64-bit finaliser (Stafford's mix 13), to fold names into a key.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// ln(x) for x in (0, 1], by atanh series on the reduced mantissa: no libm, so the same bits
// everywhere.
double log_of(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double sum = 0;
  for (int k = 27; k >= 1; k -= 2) {
    sum = sum * z + 1.0 / k;
  }
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// cos(2*pi*u) for u in [0, 1): quarter-turn reduction (exact), then Taylor.
double cos_turn(double u) {
  const double q = u * 4;
  const int quadrant = static_cast<int>(q);
  const double f = q - quadrant;  // [0, 1) of a quarter turn
  const bool reflect = f > 0.5;
  const double t = (reflect ? 1 - f : f) * 1.5707963267948966;
  const double z = t * t;
  double c = 0;
  double s = 0;
  for (int k = 18; k >= 2; k -= 2) {
    c = (c + 1) * (-z / ((k - 1) * k));
    s = (s + 1) * (-z / (k * (k + 1)));
  }
  c += 1;
  s = (s + 1) * t;
  const double cf = reflect ? s : c;  // cos of f quarter turns
  const double sf = reflect ? c : s;
  switch (quadrant & 3) {
    case 0:
      return cf;
    case 1:
      return -sf;
    case 2:
      return -cf;
    default:
      return sf;
  }
}

}  // namespace

Philox4 philox(Philox4 c, std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0,
         static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t s = mix(seed + 0x9e3779b97f4a7c15ULL);
  const std::uint64_t t = mix(s ^ (a + 0xd1b54a32d192ed03ULL));
  key_ = mix(t ^ (b + 0x8cb92ba72f3d8dd7ULL));
  high_ = static_cast<std::uint32_t>(purpose);
}

std::uint64_t RandomStream::bits_at(std::uint64_t i) const {
  const Philox4 r =
      philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), high_, 0}, key_);
  return (std::uint64_t{r[1]} << 32) | r[0];
}

double RandomStream::uniform_at(std::uint64_t i) const {
  return static_cast<double>(bits_at(i) >> 11) * 0x1.0p-53;
}

double RandomStream::normal_at(std::uint64_t i) const {
  const Philox4 r =
      philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), high_, 1}, key_);
  const std::uint64_t a = (std::uint64_t{r[1]} << 32) | r[0];
  const std::uint64_t b = (std::uint64_t{r[3]} << 32) | r[2];
  const double u = (static_cast<double>(a >> 11) + 1) * 0x1.0p-53;  // (0, 1]
  const double v = static_cast<double>(b >> 11) * 0x1.0p-53;
  return std::sqrt(-2 * log_of(u)) * cos_turn(v);
}

std::uint64_t RandomStream::below_at(std::uint64_t i, std::uint64_t n) const {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits_at(i)) * n) >> 64);
}

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) : n_(n) {
  CAMBIUM_CHECK(n > 0, "a permutation of nothing");
  while ((std::uint64_t{1} << (2 * half_bits_)) < n) {
    ++half_bits_;
  }
  key_ = mix(mix(seed + 0x2545f4914f6cdd1dULL) ^ (epoch + 0x9e3779b97f4a7c15ULL));
}

std::uint64_t Permutation::at(std::uint64_t i) const {
  if (n_ == 1) {
    return 0;
  }
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = i >> half_bits_;
    std::uint64_t right = i & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const Philox4 r = philox({static_cast<std::uint32_t>(right),
                                static_cast<std::uint32_t>(right >> 32),
                                static_cast<std::uint32_t>(Purpose::order),
                                round},
                               key_);
      const std::uint64_t next = left ^ (((std::uint64_t{r[1]} << 32) | r[0]) & mask);
      left = right;
      right = next;
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

}  // namespace cambium
