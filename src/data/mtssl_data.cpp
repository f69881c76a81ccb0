// SPDX-License-Identifier: Apache-2.0
#include "data/mtssl_data.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/philox.hpp"
#include "data/json_lines.hpp"

namespace cambium::data {
namespace {

void warn_replaced(const std::filesystem::path& path,
                   const JsonLines& lines,
                   std::vector<std::string>& warnings) {
  if (lines.replaced > 0) {
    warnings.push_back(
        fmt::format("{}:{}: {} halves of surrogate pairs became U+FFFD, here the first",
                    path.string(),
                    lines.first_replaced,
                    lines.replaced));
  }
}

std::vector<Text> texts_of(const std::vector<TextRecord>& records, const LabelSet& labels) {
  std::vector<Text> texts;
  for (const TextRecord& record : records) {
    const std::int32_t label = labels.index_of(record.label);
    if (label >= 0) {
      texts.push_back(
          {.bytes = record.text, .label = label, .uid = static_cast<std::uint64_t>(record.line)});
    }
  }
  return texts;
}

// Which texts keep their label: `per_class` of each class, by a permutation keyed by (seed, name),
// so that the choice within a class does not depend on which other classes are in use.
std::vector<bool> choose_labelled(const config::MtsslPhase& phase,
                                  const std::vector<Text>& texts,
                                  const LabelSet& labels,
                                  std::uint64_t seed) {
  std::vector<bool> keeps(texts.size(), phase.labelled_per_class == 0);
  if (phase.labelled_per_class == 0) {
    return keeps;
  }
  for (dim_t c = 0; c < labels.size(); ++c) {
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].label == c) {
        members.push_back(i);
      }
    }
    const std::string& name = labels.names()[static_cast<std::size_t>(c)];
    if (static_cast<dim_t>(members.size()) < phase.labelled_per_class) {
      throw Error(Code::bad_input,
                  fmt::format("{}: label {} has {} texts, expected at least labelled_per_class {}",
                              phase.labelled.string(),
                              name,
                              members.size(),
                              phase.labelled_per_class));
    }
    const std::uint64_t key = RandomStream(seed, Purpose::label, hash_text(name)).bits_at(0);
    const Permutation order(members.size(), key, 0);
    for (dim_t i = 0; i < phase.labelled_per_class; ++i) {
      keeps[members[order.at(static_cast<std::uint64_t>(i))]] = true;
    }
  }
  return keeps;
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

struct Split {
  std::vector<Text> labelled;
  std::vector<Text> rest;  // without their labels
};

Split split_texts(std::vector<Text> texts, const std::vector<bool>& keeps) {
  Split split;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (keeps[i]) {
      split.labelled.push_back(std::move(texts[i]));
    } else {
      texts[i].label = -1;
      split.rest.push_back(std::move(texts[i]));
    }
  }
  return split;
}

std::vector<Text> read_unlabelled(const std::filesystem::path& path,
                                  std::vector<std::string>& warnings) {
  const JsonLines lines = read_json_lines(path, Labels::ignored);
  warn_replaced(path, lines, warnings);
  std::vector<Text> texts;
  for (const TextRecord& record : lines.records) {
    texts.push_back(
        {.bytes = record.text, .label = -1, .uid = static_cast<std::uint64_t>(record.line)});
  }
  return texts;
}

void check_enough(const config::MtsslPhase& phase, std::size_t labelled, std::size_t unlabelled) {
  const dim_t wanted = phase.global_batch_size * phase.unlabelled_ratio;
  const bool needs_unlabelled = phase.threshold.kind != config::ThresholdKind::off;
  if (static_cast<dim_t>(labelled) < phase.global_batch_size) {
    throw Error(Code::bad_input,
                fmt::format("{}: {} labelled texts in use, expected at least global_batch_size {}",
                            phase.labelled.string(),
                            labelled,
                            phase.global_batch_size));
  }
  if (needs_unlabelled && static_cast<dim_t>(unlabelled) < wanted) {
    throw Error(Code::bad_input,
                fmt::format("{}: {} unlabelled texts, expected at least global_batch_size {} x "
                            "unlabelled_ratio {} = {}",
                            phase.unlabelled.value_or(phase.labelled).string(),
                            unlabelled,
                            phase.global_batch_size,
                            phase.unlabelled_ratio,
                            wanted));
  }
}

}  // namespace

TextSet load_labelled_texts(const std::filesystem::path& path,
                            const LabelSet& labels,
                            std::vector<std::string>& warnings) {
  const JsonLines lines = read_json_lines(path, Labels::required);
  warn_replaced(path, lines, warnings);
  std::vector<Text> texts = texts_of(lines.records, labels);
  if (texts.empty()) {
    throw Error(
        Code::bad_input,
        fmt::format("{}: 0 of {} records have one of the {} labels in use, expected at least 1",
                    path.string(),
                    lines.records.size(),
                    labels.size()));
  }
  return TextSet(std::move(texts));
}

MtsslData load_mtssl_data(const config::MtsslPhase& phase, std::uint64_t seed) {
  std::vector<std::string> warnings;
  const JsonLines lines = read_json_lines(phase.labelled, Labels::required);
  warn_replaced(phase.labelled, lines, warnings);
  const LabelSet labels = LabelSet::choose(phase, lines.records);
  std::vector<Text> texts = texts_of(lines.records, labels);
  const std::vector<bool> keeps = choose_labelled(phase, texts, labels, seed);
  Split split = split_texts(std::move(texts), keeps);
  if (phase.unlabelled && !is_same_file(*phase.unlabelled, phase.labelled)) {
    split.rest = read_unlabelled(*phase.unlabelled, warnings);
  }
  check_enough(phase, split.labelled.size(), split.rest.size());
  TextSet held_out = load_labelled_texts(phase.validation.path, labels, warnings);
  const auto labelled_texts = static_cast<dim_t>(split.labelled.size());
  const auto unlabelled_texts = static_cast<dim_t>(split.rest.size());
  return {.labels = labels,
          .labelled = TextSet(std::move(split.labelled)),
          .unlabelled = TextSet(std::move(split.rest)),
          .held_out = std::move(held_out),
          .labelled_order = Sampler(seed, phase.global_batch_size, {labelled_texts}, {}, 1),
          .unlabelled_order = Sampler(seed,
                                      phase.global_batch_size * phase.unlabelled_ratio,
                                      {std::max<dim_t>(unlabelled_texts, 1)},
                                      {},
                                      2),
          .warnings = std::move(warnings)};
}

}  // namespace cambium::data
