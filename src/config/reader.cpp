// SPDX-License-Identifier: Apache-2.0
#include "config/reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "base/error.hpp"
#include "config/document.hpp"
#include "config/nearest.hpp"
#include "config/overrides.hpp"
#include "config/scalars.hpp"

namespace cambium::config {

struct Reader::File {
  struct Problem {
    int line = 0;
    std::string text;
  };

  std::string name;
  Node root;
  std::vector<Problem> problems;
  std::map<std::string, std::vector<std::string>, std::less<>>
      known;  // path of a map: keys that at() named
  std::map<std::string, std::string, std::less<>> places;
  std::map<std::string, int, std::less<>> lines;

  void add(int line, std::string_view place, std::string_view path, std::string_view text) {
    problems.push_back({.line = line,
                        .text = path.empty() ? fmt::format("{}: {}", place, text)
                                             : fmt::format("{}: {}: {}", place, path, text)});
  }

  // Notes doubled keys below a node.
  void find_doubled_keys(const Node& node, const std::string& path) {
    std::map<std::string, const Entry*> seen;
    for (const Entry& entry : node.entries) {
      const std::string below = path.empty() ? entry.key : path + "." + entry.key;
      const auto [first, is_new] = seen.emplace(entry.key, &entry);
      if (!is_new) {
        add(entry.line,
            entry.place,
            below,
            fmt::format("the key stands twice, on lines {} and {}; keep one",
                        first->second->line,
                        entry.line));
      }
      find_doubled_keys(entry.value, below);
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string item = node.name_of_item(i);
      find_doubled_keys(node.items[i], path.empty() ? item : path + "." + item);
    }
  }
};

namespace {

// Words that other programs use; the nearest name would not find them.
struct Synonym {
  std::string_view other;
  std::string_view ours;
};

constexpr Synonym kSynonyms[] = {
    {"lr", "learning_rate.peak"},
    {"wd", "optimizer.weight_decay"},
    {"num_layers", "model.num_hidden_layers"},
    {"n_layer", "model.num_hidden_layers"},
    {"seq_len", "sequence_length"},
    {"seq_length", "sequence_length"},
    {"max_steps", "steps"},
    {"batch_size", "global_batch_size"},
    {"dp", "parallel.data"},
    {"tp", "parallel.tensor"},
    {"pp", "parallel.pipeline"},
    {"warmup", "learning_rate.warmup_steps"},
    {"min_lr", "learning_rate.final"},
    {"grad_clip", "optimizer.clip_grad_norm"},
    {"gradient_accumulation_steps",
     "nothing: it is global_batch_size / (micro_batch_size x logical data)"},
    {"output_dir", "run.directory"},
};

std::string_view last_key(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string hint_for(const std::string& key,
                     const std::vector<std::string>& known,
                     const std::vector<std::string>& elsewhere) {
  for (const std::string& path : elsewhere) {
    if (last_key(path) == key) {
      return fmt::format("the key belongs to {}", path);
    }
  }
  if (const auto near = nearest_name(key, known)) {
    return fmt::format("did you mean {}?", *near);
  }
  for (const Synonym& synonym : kSynonyms) {
    if (synonym.other == key) {
      return fmt::format("here it is called {}", synonym.ours);
    }
  }
  std::vector<std::string> names;
  for (const std::string& path : elsewhere) {
    names.emplace_back(last_key(path));
  }
  if (const auto near = nearest_name(key, names)) {
    const auto at = std::find(names.begin(), names.end(), *near) - names.begin();
    return fmt::format("did you mean {}?", elsewhere[static_cast<std::size_t>(at)]);
  }
  return fmt::format("expected one of {}", join(known));
}

}  // namespace

bool Bounds::contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Bounds::describe() const {
  const bool has_low = low > -std::numeric_limits<double>::infinity();
  const bool has_high = high < std::numeric_limits<double>::infinity();
  if (has_low && has_high) {
    return fmt::format(" in {}{}, {}{}",
                       low_open ? '(' : '[',
                       format_number(low),
                       format_number(high),
                       high_open ? ')' : ']');
  }
  if (has_low) {
    return fmt::format(" {} {}", low_open ? "above" : "of at least", format_number(low));
  }
  return has_high ? fmt::format(" {} {}", high_open ? "below" : "of at most", format_number(high))
                  : "";
}

Reader::Reader(std::shared_ptr<File> file, const Node* node, std::string path)
    : file_(std::move(file)), node_(node), path_(std::move(path)) {}

Reader Reader::parse(std::string_view text,
                     const std::filesystem::path& file,
                     std::span<const std::string> overrides) {
  auto shared = std::make_shared<File>();
  shared->name = file.string();
  shared->root = parse_document(text, shared->name);
  shared->root.place = shared->name;
  shared->find_doubled_keys(shared->root, "");
  for (const std::string& assignment : overrides) {
    if (const auto problem = apply_override(shared->root, assignment)) {
      shared->add(std::numeric_limits<int>::max(), problem->place, problem->path, problem->text);
    }
  }
  const Node* root = &shared->root;
  return Reader(std::move(shared), root, "");
}

bool Reader::is_present() const {
  return node_ != nullptr && node_->kind != Node::Kind::null;
}

bool Reader::is_written() const {
  return node_ != nullptr;
}

bool Reader::is_map() const {
  return node_ != nullptr && node_->kind == Node::Kind::map;
}

bool Reader::is_list() const {
  return node_ != nullptr && node_->kind == Node::Kind::list;
}

std::string Reader::place() const {
  return node_ != nullptr ? node_->place : file_->name;
}

Reader Reader::at(std::string_view key) {
  const Node* value = is_map() ? node_->find(key) : nullptr;
  std::string below = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  std::vector<std::string>& known = file_->known[path_];
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    known.emplace_back(key);
  }
  if (value != nullptr) {
    file_->places[below] = value->place;
    file_->lines[below] = value->line;
  }
  return Reader(file_, value, std::move(below));
}

std::vector<Reader> Reader::elements() {
  std::vector<Reader> out;
  if (!is_list()) {
    refuse("a list");
    return out;
  }
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    const Node& item = node_->items[i];
    std::string below = fmt::format("{}.{}", path_, node_->name_of_item(i));
    file_->places[below] = item.place;
    file_->lines[below] = item.line;
    out.push_back(Reader(file_, &item, std::move(below)));
  }
  return out;
}

std::vector<std::string> Reader::keys() const {
  std::vector<std::string> out;
  if (node_ != nullptr) {
    for (const Entry& entry : node_->entries) {
      out.push_back(entry.key);
    }
  }
  return out;
}

bool Reader::expect_map() {
  if (!is_map()) {
    refuse("a map of keys");
  }
  return is_map();
}

std::nullopt_t Reader::refuse(std::string_view expected) {
  add_problem(fmt::format("expected {}, got {}",
                          expected,
                          node_ != nullptr ? node_->describe() : std::string("nothing")));
  return std::nullopt;
}

std::optional<std::string> Reader::plain(std::string_view expected) {
  if (node_ == nullptr || node_->kind != Node::Kind::scalar) {
    return refuse(expected);
  }
  if (node_->quoted) {
    add_problem(fmt::format("expected {}, got {}; remove the quotes", expected, node_->describe()));
    return std::nullopt;
  }
  return node_->text;
}

std::optional<std::int64_t> Reader::read_count(const Bounds& bounds) {
  const std::string expected = "a whole decimal number" + bounds.describe();
  const std::optional<std::string> text = plain(expected);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> value = parse_count(*text);
  return value && bounds.contains(static_cast<double>(*value)) ? value : refuse(expected);
}

std::optional<std::uint64_t> Reader::read_seed() {
  constexpr std::string_view kExpected = "a whole decimal number of at least 0, below 2^64";
  const std::optional<std::string> text = plain(kExpected);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> value = parse_unsigned(*text);
  return value ? value : refuse(kExpected);
}

std::optional<double> Reader::read_number(const Bounds& bounds) {
  const std::string expected = "a decimal number" + bounds.describe();
  const std::optional<std::string> text = plain(expected);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<double> value = parse_number(*text);
  return value && bounds.contains(*value) ? value : refuse(expected);
}

std::optional<double> Reader::read_seconds(const Bounds& bounds) {
  const std::string expected = "seconds or h:mm:ss" + bounds.describe();
  const std::optional<std::string> text = plain(expected);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<double> value = parse_seconds(*text);
  return value && bounds.contains(*value) ? value : refuse(expected);
}

std::optional<std::int64_t> Reader::read_bytes() {
  constexpr std::string_view kExpected = "a size in bytes such as 4096, 64KiB or 80GiB";
  const std::optional<std::string> text = plain(kExpected);
  if (!text) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> value = parse_bytes(*text);
  return value && *value >= 0 ? value : refuse(kExpected);
}

std::optional<bool> Reader::read_flag() {
  const std::optional<std::string> text = plain("true or false");
  if (!text) {
    return std::nullopt;
  }
  if (*text != "true" && *text != "false") {
    return refuse("true or false");
  }
  return *text == "true";
}

std::optional<std::string> Reader::read_text() {
  const bool has_text =
      node_ != nullptr && (node_->kind == Node::Kind::scalar ||
                           (node_->kind == Node::Kind::null && !node_->text.empty()));
  if (!has_text || node_->text.empty()) {
    return refuse("a text");
  }
  return node_->text;
}

std::optional<std::size_t> Reader::read_word(const std::vector<std::string>& words) {
  const bool has_text =
      node_ != nullptr && (node_->kind == Node::Kind::scalar || node_->kind == Node::Kind::null);
  const std::string expected = words.size() == 1 ? words[0] : fmt::format("one of {}", join(words));
  if (!has_text || node_->text.empty()) {
    return refuse(expected);
  }
  const auto found = std::find(words.begin(), words.end(), node_->text);
  if (found == words.end()) {
    const std::optional<std::string> near = nearest_name(node_->text, words);
    add_problem(fmt::format("expected {}, got {}{}",
                            expected,
                            node_->describe(),
                            near ? fmt::format("; did you mean {}?", *near) : ""));
    return std::nullopt;
  }
  return static_cast<std::size_t>(found - words.begin());
}

bool Reader::is_word(std::string_view word) const {
  return node_ != nullptr && node_->kind == Node::Kind::scalar && !node_->quoted &&
         node_->text == word;
}

void Reader::add_problem(std::string_view text) {
  if (node_ != nullptr) {
    file_->add(node_->line, node_->place, path_, text);
  } else {
    add_problem_at(path_, text);
  }
}

void Reader::add_problem_at(std::string_view path, std::string_view text) {
  for (std::string_view above = path;;) {
    const auto place = file_->places.find(above);
    if (place != file_->places.end()) {
      file_->add(file_->lines.find(above)->second, place->second, path, text);
      return;
    }
    const std::size_t dot = above.rfind('.');
    if (dot == std::string_view::npos) {
      break;
    }
    above = above.substr(0, dot);
  }
  file_->add(0, file_->name, path, text);
}

void Reader::refuse_unknown(const std::vector<std::string>& elsewhere) {
  if (!is_map()) {
    return;
  }
  const std::vector<std::string>& known = file_->known[path_];
  std::set<std::string> told;
  for (const Entry& entry : node_->entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end() ||
        !told.insert(entry.key).second) {
      continue;
    }
    file_->add(entry.line,
               entry.place,
               path_.empty() ? entry.key : path_ + "." + entry.key,
               "unknown key; " + hint_for(entry.key, known, elsewhere));
  }
}

bool Reader::has_problems() const {
  return !file_->problems.empty();
}

void Reader::finish() const {
  if (file_->problems.empty()) {
    return;
  }
  std::vector<File::Problem> sorted = file_->problems;
  std::stable_sort(
      sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  std::string text;
  for (const File::Problem& problem : sorted) {
    text += (text.empty() ? "" : "\n") + problem.text;
  }
  throw Error(Code::usage, text);
}

const std::map<std::string, std::string, std::less<>>& Reader::places() const {
  return file_->places;
}

}  // namespace cambium::config
