// config/document.hpp — a YAML document as a plain tree that keeps what a good message needs:
// quotes, places, order. Aliases are copied in, merge keys (`<<`) are merged (a local key wins, in
// a list the earlier map wins).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace cambium::config {

struct Entry;

struct Node {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string text;     // of a scalar; of a null as it was written (`null`, `~` or nothing)
  bool quoted = false;  // a scalar in quotes is a text, never a number or a flag
  std::string place;    // file:line
  int line = 0;         // from 1; behind every line of the file for an override
  std::vector<Node> items;
  std::vector<Entry> entries;  // in file order; a doubled key stays doubled

  // The first entry under the key, or nullptr.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);
  // `a map`, `a list`, `the text "x"`, `"x"`, `nothing`: for messages.
  [[nodiscard]] std::string describe() const;
  // How element i of this list is called in a path: its `name`, else its index.
  [[nodiscard]] std::string name_of_item(std::size_t i) const;
};

struct Entry {
  std::string key;
  int line = 0;
  std::string place;
  Node value;
};

// Line ends may be CR LF, the file may start with a byte order mark. An empty file is a null.
// Throws: Error(usage) `source:line:column: …` for what is no YAML (a tab in the indentation is
// called by its name), for several documents, an alias inside its own anchor, a merge key whose
// value is no map, and more than 100000 nodes.
[[nodiscard]] Node parse_document(std::string_view text, const std::string& source);

}  // namespace cambium::config
