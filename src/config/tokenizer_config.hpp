// config/tokenizer_config.hpp — section `tokenizer`. This version has byte tokens only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cambium::config {

struct TokenizerConfig {
  bool bytes = true;

  bool operator==(const TokenizerConfig&) const = default;
};

}  // namespace cambium::config
