// config/reader.hpp — a node of a YAML file that knows its path, file and line, and gathers
// problems. A struct is read by naming its keys; unknown keys are found by what was not named.
// Nothing is thrown before finish().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace cambium::config {

struct Node;

// What a number may be; the ends belong to it unless they are said to be open.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;

  [[nodiscard]] bool contains(double value) const;
  // `at least 1`, `in [0, 1)`, `above 0`, or nothing for no bounds.
  [[nodiscard]] std::string describe() const;
};

class Reader {
 public:
  // The root of a file with `--set` overrides applied; doubled keys are noted with both lines.
  // Throws: Error(usage) when the text is no YAML at all.
  static Reader parse(std::string_view text,
                      const std::filesystem::path& file,
                      std::span<const std::string> overrides = {});

  // False for an absent key, and for one whose value is null or nothing.
  [[nodiscard]] bool is_present() const;
  // Also true when its value is null or nothing.
  [[nodiscard]] bool is_written() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;

  [[nodiscard]] const std::string& path() const {
    return path_;
  }

  [[nodiscard]] std::string place() const;  // file:line

  // The value under a key (absent: a reader for which is_present() is false); the key counts as
  // known.
  Reader at(std::string_view key);
  // The elements of a list, called by their `name` or index; a problem when it is none.
  std::vector<Reader> elements();
  // The keys of a map in file order.
  [[nodiscard]] std::vector<std::string> keys() const;
  // A problem unless this is a map.
  bool expect_map();

  // The value, or none with a problem noted. Numbers: decimal, 1e-4; leading zeros decimal;
  // hexadecimal and octal refused. Counts also 1e9 where whole; times also h:mm:ss; sizes also
  // 80GiB. Flags are true and false only. A text keeps the literal characters (no, 007, null); a
  // quoted value is a text and nothing else.
  std::optional<std::int64_t> read_count(const Bounds& bounds = {});
  std::optional<std::uint64_t> read_seed();
  std::optional<double> read_number(const Bounds& bounds = {});
  std::optional<double> read_seconds(const Bounds& bounds = {});
  std::optional<std::int64_t> read_bytes();
  std::optional<bool> read_flag();
  std::optional<std::string> read_text();
  // The index of the value in a list of words.
  std::optional<std::size_t> read_word(const std::vector<std::string>& words);
  // True for the plain word, without a problem otherwise.
  [[nodiscard]] bool is_word(std::string_view word) const;

  void add_problem(std::string_view text);
  // At the key or, if it is absent, at the nearest key above it.
  void add_problem_at(std::string_view path, std::string_view text);
  // Notes every key that no at() named, with a hint: the nearest known key here, or the dotted path
  // elsewhere.
  void refuse_unknown(const std::vector<std::string>& elsewhere);
  [[nodiscard]] bool has_problems() const;
  // Throws one Error(usage) with all problems of this file, ordered by line; returns when there are
  // none.
  void finish() const;

  // Dotted path to file:line of every key that was read.
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& places() const;

 private:
  struct File;  // nodes, problems, known keys; shared by the readers of one file, which come and go
                // in any order
  Reader(std::shared_ptr<File> file, const Node* node, std::string path);
  // Notes `expected …, got …` and returns none.
  std::nullopt_t refuse(std::string_view expected);
  // The text of a plain scalar; none with a problem otherwise.
  std::optional<std::string> plain(std::string_view expected);

  std::shared_ptr<File> file_;
  const Node* node_;  // nullptr: absent
  std::string path_;
};

}  // namespace cambium::config
