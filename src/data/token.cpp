// SPDX-License-Identifier: Apache-2.0
#include "data/token.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::data {

void check_ids(std::span<const std::int32_t> ids,
               dim_t batch,
               dim_t vocabulary,
               std::string_view where) {
  CAMBIUM_CHECK(batch > 0 && static_cast<dim_t>(ids.size()) % batch == 0, "ragged micro-batch");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      const auto at = static_cast<dim_t>(i);
      throw Error(Code::bad_input,
                  fmt::format("{}: sample {}, offset {}: id {}, expected 0 … {} (vocabulary {})",
                              where,
                              at % batch,
                              at / batch,
                              ids[i],
                              vocabulary - 1,
                              vocabulary));
    }
  }
}

}  // namespace cambium::data
