// SPDX-License-Identifier: Apache-2.0
#include "data/text_corpus.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "data/data_file.hpp"

namespace cambium::data {

TextCorpus TextCorpus::open(const std::filesystem::path& path, dim_t sequence_length) {
  CAMBIUM_CHECK(sequence_length > 0, "a window without tokens");
  TextCorpus corpus;
  corpus.path_ = path;
  corpus.text_ = read_data_file(path, "tokens");
  normalise_line_ends(corpus.text_);
  corpus.windows_ = {.tokens = static_cast<dim_t>(corpus.text_.size()),
                     .sequence_length = sequence_length};
  if (corpus.samples() == 0) {
    throw Error(Code::bad_input,
                fmt::format("{}: {} tokens, expected at least sequence_length + 1 = {}",
                            path.string(),
                            corpus.windows_.tokens,
                            sequence_length + 1));
  }
  return corpus;
}

void TextCorpus::fill(dim_t sample,
                      dim_t b,
                      dim_t batch,
                      std::span<std::int32_t> ids,
                      std::span<std::int32_t> targets) const {
  CAMBIUM_CHECK(sample >= 0 && sample < samples(), "no such window");
  CAMBIUM_CHECK(static_cast<dim_t>(ids.size()) == windows_.sequence_length * batch &&
                    ids.size() == targets.size(),
                "a micro-batch of another size");
  const auto* token =
      reinterpret_cast<const unsigned char*>(text_.data()) + windows_.offset(sample);
  for (dim_t t = 0; t < windows_.sequence_length; ++t) {
    const auto row = static_cast<std::size_t>(t * batch + b);
    ids[row] = token[t];
    targets[row] = token[t + 1];
  }
}

std::string TextCorpus::describe() const {
  return fmt::format("{}: {} tokens, {} windows of {} + 1, {} tokens dropped at the end",
                     path_.string(),
                     windows_.tokens,
                     samples(),
                     windows_.sequence_length,
                     windows_.dropped());
}

}  // namespace cambium::data
