// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <gtest/gtest.h>

namespace cambium {
namespace {

TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_hex(hash_text("")), "2d06800538d394c2");  // the published value of no bytes
}

TEST(Hash, DependsOnEveryByteTheLengthAndTheSeed) {
  const std::string text(1000, 'a');
  const std::uint64_t plain = hash_text(text);
  for (const std::size_t i : {0U, 17U, 500U, 999U}) {
    std::string other = text;
    other[i] = 'b';
    EXPECT_NE(hash_text(other), plain) << "byte " << i;
  }
  EXPECT_NE(hash_text(text + "a"), plain);
  EXPECT_NE(hash_text(text, 1), plain);
  EXPECT_EQ(hash_text(text), plain);
}

TEST(Hash, IsWrittenWithSixteenDigits) {
  EXPECT_EQ(hash_hex(0xabc), "0000000000000abc");
}

}  // namespace
}  // namespace cambium
