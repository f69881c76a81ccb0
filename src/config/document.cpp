// config/document.cpp — yaml-cpp's events become a tree. The only file that includes yaml-cpp.
// SPDX-License-Identifier: Apache-2.0
#include "config/document.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/error.hpp"

namespace cambium::config {
namespace {

// Aliases of aliases grow exponentially; a campaign has a few hundred nodes.
constexpr std::size_t kNodeLimit = 100000;

std::string normalised(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    text.remove_prefix(3);
  }
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') {
      continue;
    }
    out += text[i];
  }
  return out;
}

struct Tab {
  int line = 0;  // from 1
  int column = 0;
};

struct TabScan {
  std::string without;  // lines of white space or comment only, with a tab before it, are emptied:
                        // they are harmless
  std::optional<Tab> first;  // a tab in front of content
};

TabScan scan_tabs(const std::string& text) {
  TabScan scan;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::size_t content = line.find_first_not_of(" \t");
    const std::size_t tab = line.substr(0, content).find('\t');
    if (tab != std::string::npos) {
      if (content == std::string::npos || line[content] == '#') {
        line.clear();
      } else if (!scan.first) {
        scan.first = Tab{.line = number, .column = static_cast<int>(tab) + 1};
      }
    }
    scan.without += line;
    scan.without += '\n';
  }
  return scan;
}

std::size_t count_nodes(const Node& node) {
  std::size_t n = 1;
  for (const Node& item : node.items) {
    n += count_nodes(item);
  }
  for (const Entry& entry : node.entries) {
    n += count_nodes(entry.value);
  }
  return n;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& text, std::string source)
      : text_(text), source_(std::move(source)) {}

  Node take() {
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      fail(mark, "a second document starts here, expected one; remove the line `---`");
    }
  }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node = make(mark, Node::Kind::null);
    node.text = null_text(mark);
    if (node.text.empty() && !open_.empty() && open_.back().key) {
      // The parser marks the token behind an absent value; the key's line is where a person looks.
      node.line = open_.back().key->line;
      node.place = open_.back().key->place;
    }
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) {
      fail(mark, "an alias inside its own anchor, expected a finished value");
    }
    nodes_ += count_nodes(known->second);
    check_size(mark);
    put(Node(known->second));
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = make(mark, Node::Kind::scalar);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (node.quoted && !is_closed(mark)) {
      fail(mark, "a quote that is never closed");
    }
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& /*tag*/,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({.node = make(mark, Node::Kind::list), .anchor = anchor, .key = {}});
  }

  void OnSequenceEnd() override {
    close();
  }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& /*tag*/,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open_.push_back({.node = make(mark, Node::Kind::map), .anchor = anchor, .key = {}});
  }

  void OnMapEnd() override {
    merge(open_.back().node);
    close();
  }

 private:
  struct Key {
    std::string text;
    int line = 0;
    std::string place;
  };

  struct Open {
    Node node;
    YAML::anchor_t anchor;
    std::optional<Key> key;  // read, its value not yet
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw Error(Code::usage,
                fmt::format("{}:{}:{}: {}", source_, mark.line + 1, mark.column + 1, what));
  }

  void check_size(const YAML::Mark& mark) const {
    if (nodes_ > kNodeLimit) {
      fail(mark, fmt::format("more than {} values; are aliases nested?", kNodeLimit));
    }
  }

  Node make(const YAML::Mark& mark, Node::Kind kind) {
    ++nodes_;
    check_size(mark);
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.place = fmt::format("{}:{}", source_, node.line);
    return node;
  }

  // A string key keeps the literal text `null`; the event does not carry it.
  std::string null_text(const YAML::Mark& mark) const {
    if (mark.pos < 0 || static_cast<std::size_t>(mark.pos) >= text_.size()) {
      return {};
    }
    const std::string_view rest =
        std::string_view(text_).substr(static_cast<std::size_t>(mark.pos));
    for (const std::string_view word : {"null", "Null", "NULL", "~"}) {
      if (rest.substr(0, word.size()) == word) {
        const std::string_view behind = rest.substr(word.size());
        const std::size_t next = behind.find_first_not_of(" \t");
        const bool is_key = next != std::string_view::npos && behind[next] == ':';
        return is_key ? std::string() : std::string(word);
      }
    }
    return {};
  }

  // The parser takes the end of the file for the end of a quoted text.
  bool is_closed(const YAML::Mark& mark) const {
    std::size_t i = mark.pos < 0 ? text_.size() : static_cast<std::size_t>(mark.pos);
    const char quote = i < text_.size() ? text_[i] : ' ';
    if (quote != '\'' && quote != '"') {
      return true;  // quoted by a tag
    }
    for (++i; i < text_.size(); ++i) {
      const bool is_escape = quote == '"' ? text_[i] == '\\' : text_.compare(i, 2, "''") == 0;
      if (is_escape) {
        ++i;
      } else if (text_[i] == quote) {
        return true;
      }
    }
    return false;
  }

  void finish(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      anchors_[anchor] = node;
    }
    put(std::move(node));
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    finish(std::move(done.node), done.anchor);
  }

  void put(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      if (node.kind == Node::Kind::list || node.kind == Node::Kind::map) {
        throw Error(
            Code::usage,
            fmt::format("{}: a key that is {}, expected a word", node.place, node.describe()));
      }
      parent.key = Key{.text = node.text, .line = node.line, .place = node.place};
    } else {
      Key& key = *parent.key;
      parent.node.entries.push_back({.key = std::move(key.text),
                                     .line = key.line,
                                     .place = std::move(key.place),
                                     .value = std::move(node)});
      parent.key.reset();
    }
  }

  // Replaces the entry `<<` by the entries of its map or maps that the map itself has not. A second
  // `<<` stays: a doubled key.
  static void merge(Node& map) {
    const auto at = std::find_if(
        map.entries.begin(), map.entries.end(), [](const Entry& e) { return e.key == "<<"; });
    if (at == map.entries.end()) {
      return;
    }
    const Entry merged = std::move(*at);
    map.entries.erase(at);
    std::vector<Node> maps = merged.value.kind == Node::Kind::list
                                 ? merged.value.items
                                 : std::vector<Node>{merged.value};
    for (const Node& from : maps) {
      if (from.kind != Node::Kind::map) {
        throw Error(
            Code::usage,
            fmt::format(
                "{}: <<: expected a map or a list of maps, got {}", merged.place, from.describe()));
      }
      for (const Entry& entry : from.entries) {
        if (map.find(entry.key) == nullptr) {
          map.entries.push_back(entry);
        }
      }
    }
  }

  const std::string& text_;
  std::string source_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  int documents_ = 0;
  std::size_t nodes_ = 0;
};

Node build(const std::string& text, const std::string& source) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  TreeBuilder builder(text, source);
  while (parser.HandleNextDocument(builder)) {
  }
  return builder.take();
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) {
      return &entry.value;
    }
  }
  return nullptr;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).find(key));
}

std::string Node::describe() const {
  switch (kind) {
    case Kind::map:
      return "a map";
    case Kind::list:
      return "a list";
    case Kind::null:
      return text.empty() ? "nothing" : text;
    case Kind::scalar:
      break;
  }
  return quoted ? fmt::format("the text \"{}\"", text) : text;
}

std::string Node::name_of_item(std::size_t i) const {
  const Node* name = items[i].find("name");
  if (name != nullptr && name->kind == Kind::scalar && !name->text.empty()) {
    const auto has_name = [&](const Node& item) {
      const Node* other = item.find("name");
      return other != nullptr && other->kind == Kind::scalar && other->text == name->text;
    };
    if (std::count_if(items.begin(), items.end(), has_name) == 1) {
      return name->text;
    }
  }
  return std::to_string(i);
}

Node parse_document(std::string_view text, const std::string& source) {
  const std::string plain = normalised(text);
  try {
    return build(plain, source);
  } catch (const YAML::Exception&) {
    // Once more without harmless tabs; a tab that is left in an indentation is then the likely
    // cause.
  }
  const TabScan tabs = scan_tabs(plain);
  try {
    return build(tabs.without, source);
  } catch (const YAML::Exception& e) {
    if (tabs.first && tabs.first->line <= e.mark.line + 1) {
      throw Error(Code::usage,
                  fmt::format("{}:{}:{}: a tab in the indentation, expected spaces",
                              source,
                              tabs.first->line,
                              tabs.first->column));
    }
    throw Error(
        Code::usage,
        fmt::format(
            "{}:{}:{}: no valid YAML: {}", source, e.mark.line + 1, e.mark.column + 1, e.msg));
  }
}

}  // namespace cambium::config
