// SPDX-License-Identifier: Apache-2.0
#include "config/document.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace cambium::config {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    (void)parse_document(text, "f.yaml");
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(Document, KeepsQuotesPlacesAndOrder) {
  const Node root = parse_document("b: \"1\"\na: [x, 2]\nc:\n", "f.yaml");

  ASSERT_EQ(root.entries.size(), 3U);
  EXPECT_EQ(root.entries[0].key, "b");
  EXPECT_TRUE(root.entries[0].value.quoted);
  EXPECT_EQ(root.entries[1].value.items[1].text, "2");
  EXPECT_FALSE(root.entries[1].value.items[1].quoted);
  EXPECT_EQ(root.entries[1].value.place, "f.yaml:2");
  EXPECT_EQ(root.entries[2].value.kind, Node::Kind::null);
  EXPECT_EQ(root.entries[2].value.line, 3);
}

TEST(Document, KeepsTheWordNullAsItWasWritten) {
  const Node root = parse_document("a: null\nb: ~\nc:\nnull: 1\n", "f.yaml");

  EXPECT_EQ(root.find("a")->text, "null");
  EXPECT_EQ(root.find("b")->text, "~");
  EXPECT_EQ(root.find("c")->text, "");
}

TEST(Document, RefusesSeveralDocuments) {
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("f.yaml:2:1: a second document"));
}

TEST(Document, RefusesAnAliasInsideItsAnchor) {
  EXPECT_THAT(refusal("a: &x [*x]\n"), HasSubstr("inside its own anchor"));
}

TEST(Document, RefusesAnUnknownAlias) {
  EXPECT_THAT(refusal("a: *nope\n"), HasSubstr("f.yaml:1:"));
}

TEST(Document, RefusesAliasesThatExplode) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    text += fmt::format(
        "a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_THAT(refusal(text), HasSubstr("more than 100000 values"));
}

TEST(Document, RefusesBrokenYamlWithItsLine) {
  EXPECT_THAT(refusal("a: 1\nb: {c: 1\n"), HasSubstr("f.yaml:"));
  EXPECT_THAT(refusal("a: 1\nb: 'x\n"), HasSubstr("f.yaml:2:4: a quote that is never closed"));
  EXPECT_THAT(refusal("a: \"x\\\"\n"), HasSubstr("never closed"));
  EXPECT_THAT(refusal("a: [1\n"), HasSubstr("no valid YAML"));
  EXPECT_EQ(parse_document("a: 'it''s'\n", "f.yaml").find("a")->text, "it's");
}

TEST(Document, EmptyTextIsNull) {
  EXPECT_EQ(parse_document("", "f.yaml").kind, Node::Kind::null);
  EXPECT_EQ(parse_document("# nothing\n", "f.yaml").kind, Node::Kind::null);
}

}  // namespace
}  // namespace cambium::config
