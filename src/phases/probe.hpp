// phases/probe.hpp — the proof of a growth step: the same batches through the old and the new
// network, compared bit for bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "phases/session.hpp"

namespace cambium::phases {

struct ProbeShape {
  dim_t sequence_length = 0;
  dim_t batches = 2;  // micro-batches per data shard
};

// This rank's logits of the probe batches (last stage; empty elsewhere), in a fixed order. Ids are
// drawn by (seed, Purpose::probe, batch), so that every layout sees the same. Collective over:
// tensor, pipeline.
[[nodiscard]] std::vector<double> probe_logits(Session& session,
                                               engine::Engine& engine,
                                               const ProbeShape& shape);

struct ProbeResult {
  std::int64_t compared = 0;
  std::int64_t differing = 0;  // other bits
  std::int64_t not_finite = 0;
  double max_difference = 0;
};

// Over all ranks, the same everywhere. Collective over: world.
[[nodiscard]] ProbeResult compare_probes(Session& session,
                                         const std::vector<double>& before,
                                         const std::vector<double>& after);

}  // namespace cambium::phases
