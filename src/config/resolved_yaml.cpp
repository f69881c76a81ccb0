// config/resolved_yaml.cpp — the visitor of fields.hpp that writes a campaign with all its values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <type_traits>

#include "config/campaign.hpp"
#include "config/fields.hpp"
#include "config/phase_fields.hpp"
#include "config/scalars.hpp"
#include "config/words.hpp"

namespace cambium::config {
namespace {

// A text in quotes unless every YAML reader takes it for a plain text.
std::string in_quotes(const std::string& text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  constexpr std::string_view kOtherwise[] = {
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool starts_well =
      !text.empty() && ((lower[0] >= 'a' && lower[0] <= 'z') || text[0] == '/');
  const bool is_word =
      std::find(std::begin(kOtherwise), std::end(kOtherwise), lower) != std::end(kOtherwise);
  if (starts_well && !is_word && text.find_first_not_of(kSafe) == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

class FieldWriter {
 public:
  FieldWriter(std::string& out, std::size_t indent) : out_(out), indent_(indent) {}

  template <typename T>
  void value(std::string_view key, const T& member, const Rule& rule) {
    write(key, member, rule);
  }

  template <typename T>
  void section(std::string_view key, T& member) {
    line(key, "");
    FieldWriter below(out_, indent_ + 2);
    fields(below, member);
  }

  template <typename T>
  void section(std::string_view key, std::optional<T>& member) {
    if (member) {
      section(key, *member);
    }
  }

  void refused(std::string_view /*key*/, std::string_view /*why*/) {}

  bool skips_model_keys(const ModelConfig& model) {
    return model.from.has_value();
  }

  void starts_family(ModelConfig& /*model*/) {}

  bool has_key(bool family_has_it) {
    return family_has_it;
  }

  void line(std::string_view key, std::string_view text) {
    out_ += fmt::format("{:{}}{}:{}{}\n", "", indent_, key, text.empty() ? "" : " ", text);
  }

 private:
  template <typename T>
  void write(std::string_view key, const std::optional<T>& member, const Rule& rule) {
    if (member) {
      write(key, *member, rule);
    } else if (!rule.automatic.empty()) {
      line(key, rule.automatic);
    }
  }

  template <typename E>
  requires std::is_enum_v<E>

  void write(std::string_view key, const E& member, const Rule& /*rule*/) {
    line(key, word_of(member));
  }

  template <typename I>
  requires std::is_integral_v<I>

  void write(std::string_view key, const I& member, const Rule& rule) {
    line(key,
         member == I{} && !rule.automatic.empty() ? std::string(rule.automatic)
                                                  : fmt::format("{}", member));
  }

  void write(std::string_view key, const bool& member, const Rule& /*rule*/) {
    line(key, member ? "true" : "false");
  }

  void write(std::string_view key, const double& member, const Rule& /*rule*/) {
    line(key, format_number(member));
  }

  void write(std::string_view key, const std::string& member, const Rule& /*rule*/) {
    line(key, in_quotes(member));
  }

  void write(std::string_view key, const std::filesystem::path& member, const Rule& /*rule*/) {
    line(key, in_quotes(member.string()));
  }

  void write(std::string_view key, const Betas& member, const Rule& /*rule*/) {
    line(key, fmt::format("[{}, {}]", format_number(member.first), format_number(member.second)));
  }

  void write(std::string_view key, const std::vector<dim_t>& member, const Rule& /*rule*/) {
    if (!member.empty()) {
      line(key, fmt::format("[{}]", fmt::join(member, ", ")));
    }
  }

  void write(std::string_view key, const std::vector<std::string>& member, const Rule& /*rule*/) {
    if (member.empty()) {
      return;
    }
    line(key, "");
    for (const std::string& item : member) {
      out_ += fmt::format("{:{}}- {}\n", "", indent_ + 2, in_quotes(item));
    }
  }

  void write(std::string_view key, const std::vector<DataSource>& member, const Rule& /*rule*/) {
    line(key, "");
    for (const DataSource& source : member) {
      out_ += fmt::format("{:{}}- path: {}\n", "", indent_ + 2, in_quotes(source.path.string()));
      FieldWriter(out_, indent_ + 4).line("weight", format_number(source.weight));
    }
  }

  void write(std::string_view key, const std::vector<GrowOperation>& member, const Rule& /*rule*/) {
    line(key, "");
    for (const GrowOperation& operation : member) {
      out_ += fmt::format("{:{}}- {}:\n", "", indent_ + 2, operation_name(operation));
      FieldWriter below(out_, indent_ + 6);
      std::visit([&](auto options) { fields(below, options); }, operation);
    }
  }

  std::string& out_;
  std::size_t indent_;
};

}  // namespace

std::string resolved_yaml(const Campaign& campaign) {
  std::string out = "# As resolved: every key with the value that this run uses.\n";
  Campaign copy =
      campaign;  // one list of fields serves reading, which needs them mutable, and writing
  FieldWriter top(out, 0);
  campaign_sections(top, copy);
  out += "phases:\n";
  for (Phase& phase : copy.phases) {
    out += fmt::format("  - name: {}\n", in_quotes(phase.name));
    FieldWriter below(out, 4);
    below.line("kind", phase.kind());
    if (phase.start_from) {
      below.line("start_from", in_quotes(*phase.start_from));
    }
    std::visit([&](auto& settings) { fields(below, settings); }, phase.settings);
  }
  return out;
}

}  // namespace cambium::config
