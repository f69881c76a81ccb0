// config/reader.hpp — a node of a YAML file that knows its path, file and line, and gathers
// problems. A struct is read by naming its keys; unknown keys are found by what was not named.
// Nothing is thrown before finish(). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace cambium::config {

struct Node;

struct Problem {
  std::string place;  // file:line
  std::string path;   // dotted key
  std::string text;   // what, expected, got, hint
};

// Closed interval.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

class Reader {
 public:
  // The root of a file, with its problem list. Throws Error(usage) when the text is no YAML at all.
  static Reader parse(std::string_view text, const std::filesystem::path& file);

  [[nodiscard]] bool is_present() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] std::string place() const;  // file:line

  // The value under a key (absent: a reader for which is_present() is false); the key counts as
  // known.
  Reader at(std::string_view key);
  // The elements of a list; a problem when it is none.
  std::vector<Reader> elements();
  // The keys of a map in file order.
  [[nodiscard]] std::vector<std::string> keys() const;

  // The value, or none with a problem noted. Numbers: decimal, 1e-4, leading zeros decimal;
  // hexadecimal and octal refused. Counts also 1e9 where whole; times also h:mm:ss; sizes also
  // 80GiB. Booleans are true and false only.
  std::optional<std::int64_t> read_count(Bounds bounds);
  std::optional<std::uint64_t> read_seed();
  std::optional<double> read_number(Bounds bounds);
  std::optional<double> read_seconds(Bounds bounds);
  std::optional<std::int64_t> read_bytes();
  std::optional<bool> read_flag();
  std::optional<std::string> read_text();
  // A word of the list; its index.
  std::optional<std::size_t> read_word(const std::vector<std::string>& words);

  void add_problem(std::string_view text);
  // Notes every key that no at() named, with the nearest of `valid` or, from another section, of
  // `elsewhere`.
  void refuse_unknown(const std::vector<std::string>& valid,
                      const std::vector<std::string>& elsewhere);
  // Throws one Error(usage) with all problems of this file, ordered by line; returns when there are
  // none.
  void finish() const;

 private:
  struct File;  // name, nodes, problems; shared by all readers of one file: they come and go in any
                // order
  Reader(std::shared_ptr<File> file, const Node* node, std::string path);

  std::shared_ptr<File> file_;
  const Node* node_;
  std::string path_;
};

}  // namespace cambium::config
