// SPDX-License-Identifier: Apache-2.0
#include "growth/operators/insert_layers.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::growth {

std::string InsertLayers::describe() const {
  return fmt::format(
      "insert_layers: {} layer{} {}",
      config_.count,
      config_.count == 1 ? "" : "s",
      config_.after < 0 ? "at the front" : fmt::format("behind layer {}", config_.after));
}

void InsertLayers::apply(model::Spec& spec, std::int64_t step) const {
  const auto count = static_cast<dim_t>(spec.layers.size());
  if (config_.after < -1 || config_.after >= count) {
    throw Error(Code::usage,
                fmt::format("insert_layers: after: no layer {} in a model of {}; use -1 to {}",
                            config_.after,
                            count,
                            count - 1));
  }
  // A copy: the list moves while it grows.
  const model::LayerSpec neighbour =
      spec.layers[static_cast<std::size_t>(std::max<dim_t>(config_.after, 0))];
  for (dim_t i = 0; i < config_.count; ++i) {
    model::LayerSpec layer = neighbour;
    for (auto& blocks : layer.inserted) {
      blocks.clear();
    }
    layer.uid = spec.take_uid();
    layer.init_std_out = 0;
    layer.born_closed = true;
    layer.birth = {step, config_.warmup_steps, config_.learning_rate_multiplier};
    spec.layers.insert(spec.layers.begin() + config_.after + 1 + i, layer);
  }
}

}  // namespace cambium::growth
