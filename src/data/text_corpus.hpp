// data/text_corpus.hpp — a text file as byte tokens, cut into windows.
// Line ends CR LF become LF (so does a file saved on Windows); a lone CR is data. Otherwise bytes
// are taken as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace cambium::data {

// Windows of sequence_length + 1 tokens at stride sequence_length; a short rest is dropped. 64-bit
// throughout.
struct Windows {
  dim_t tokens = 0;
  dim_t sequence_length = 0;

  [[nodiscard]] constexpr dim_t count() const {
    return tokens > sequence_length ? (tokens - 1) / sequence_length : 0;
  }

  // First token of window i.
  [[nodiscard]] constexpr dim_t offset(dim_t i) const {
    return i * sequence_length;
  }

  // Tokens behind the last window.
  [[nodiscard]] constexpr dim_t dropped() const {
    return tokens - (count() > 0 ? count() * sequence_length + 1 : 0);
  }
};

class TextCorpus {
 public:
  // Throws: Error(bad_input) for a file that is absent, no regular file, unreadable, empty, or
  // shorter than one window (with its token count and the minimum).
  static TextCorpus open(const std::filesystem::path& path, dim_t sequence_length);

  [[nodiscard]] const std::filesystem::path& path() const {
    return path_;
  }

  [[nodiscard]] const Windows& windows() const {
    return windows_;
  }

  [[nodiscard]] dim_t samples() const {
    return windows_.count();
  }

  // Writes window `sample` into column b of a (T*B) micro-batch: ids[t*B + b] = token t,
  // targets[t*B + b] = token t + 1.
  void fill(dim_t sample,
            dim_t b,
            dim_t batch,
            std::span<std::int32_t> ids,
            std::span<std::int32_t> targets) const;

  // One line for the log: path, tokens, samples, dropped rest.
  [[nodiscard]] std::string describe() const;

 private:
  std::filesystem::path path_;
  std::string text_;
  Windows windows_;
};

}  // namespace cambium::data
