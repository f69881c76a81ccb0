// SPDX-License-Identifier: Apache-2.0
#include "phases/probe.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/philox.hpp"
#include "phases/training.hpp"

namespace cambium::phases {

std::vector<double> probe_logits(Session& session,
                                 engine::Engine& engine,
                                 const ProbeShape& shape) {
  const State& state = session.state;
  const dim_t micro = state.contract.micro_batch_size;
  const Range shards = session.store->partition().data_shards();
  const dim_t tokens = micro * shape.sequence_length;
  const auto vocabulary = static_cast<std::uint64_t>(state.spec.vocabulary);
  TokenBuffers buffers(shape.batches * shards.size(), tokens);
  std::vector<engine::MicroBatch> list;
  for (dim_t i = 0; i < shape.batches * shards.size(); ++i) {
    const dim_t global = (shards.begin + i / shape.batches) * shape.batches + i % shape.batches;
    const RandomStream random(
        state.contract.seed, Purpose::probe, static_cast<std::uint64_t>(global));
    for (dim_t t = 0; t < tokens; ++t) {
      buffers.ids(i)[static_cast<std::size_t>(t)] =
          static_cast<std::int32_t>(random.below_at(static_cast<std::uint64_t>(t), vocabulary));
    }
    list.push_back({.mode = layers::Mode::forward_only,
                    .data_shard = i / shape.batches,
                    .ids = buffers.ids_view(i),
                    .targets = buffers.targets_view(i)});
  }
  std::vector<double> logits;  // an fp32 value keeps its bits in a double, a NaN's payload apart
  engine::PassHooks hooks;
  hooks.logits = [&](Range, dim_t, device::View chunk) {
    for (dim_t r = 0; r < chunk.rows; ++r) {
      for (dim_t c = 0; c < chunk.cols; ++c) {
        const dim_t at = r * chunk.stride + c;
        logits.push_back(chunk.dtype == device::DType::f64
                             ? chunk.as<double>()[at]
                             : static_cast<double>(chunk.as<float>()[at]));
      }
    }
  };
  (void)engine.run(list, hooks);
  return logits;
}

ProbeResult compare_probes(Session& session,
                           const std::vector<double>& before,
                           const std::vector<double>& after) {
  std::vector<std::int64_t> counts = {static_cast<std::int64_t>(before.size()), 0, 0};
  std::vector<double> largest = {0.0};
  if (before.size() != after.size()) {
    counts[1] = static_cast<std::int64_t>(std::max(before.size(), after.size()));
  } else {
    for (std::size_t i = 0; i < before.size(); ++i) {
      counts[1] +=
          std::bit_cast<std::uint64_t>(before[i]) != std::bit_cast<std::uint64_t>(after[i]) ? 1 : 0;
      counts[2] += std::isfinite(after[i]) ? 0 : 1;
      if (std::isfinite(before[i]) && std::isfinite(after[i])) {
        largest[0] = std::max(largest[0], std::abs(before[i] - after[i]));
      }
    }
  }
  session.world.group().all_reduce(std::span<std::int64_t>(counts), comm::Reduce::sum);
  session.world.group().all_reduce(std::span<double>(largest), comm::Reduce::max);
  return {counts[0], counts[1], counts[2], largest[0]};
}

}  // namespace cambium::phases
