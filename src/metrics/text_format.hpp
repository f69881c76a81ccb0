// metrics/text_format.hpp — numbers as people read them, text as HTML wants it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cambium::metrics {

[[nodiscard]] std::string escape_html(std::string_view text);
[[nodiscard]] std::string count_text(double value);      // 1,638,400
[[nodiscard]] std::string bytes_text(double bytes);      // 2.1 MiB
[[nodiscard]] std::string large_text(double value);      // 1.64 M
[[nodiscard]] std::string seconds_text(double seconds);  // 0.21 s, 3 min 12 s
[[nodiscard]] std::string loss_text(double value);       // 2.4431; "not finite"
[[nodiscard]] std::string percent_text(double share);    // 71.25 %

}  // namespace cambium::metrics
