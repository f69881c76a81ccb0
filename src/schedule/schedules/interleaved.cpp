// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "schedule/plan_builder.hpp"
#include "schedule/schedules/schedules.hpp"

namespace cambium::schedule {
namespace {

struct Pass {
  dim_t micro_batch;
  int chunk;
};

// The order of forwards: micro-batches in groups of as many as there are stages, each group through
// chunk 0, then chunk 1, … By the time that a group's first micro-batch is due in the next chunk,
// it has been through all stages. A last group that is not full keeps the places of those that it
// lacks, so that the stages stay in step: any number of micro-batches works.
std::vector<Pass> order_of(const ScheduleShape& shape) {
  const auto count = static_cast<dim_t>(shape.micro_batches.size());
  std::vector<Pass> order;
  for (dim_t first = 0; first < count; first += shape.stages) {
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      for (dim_t m = first; m < first + shape.stages; ++m) {
        order.push_back({m, chunk});
      }
    }
  }
  return order;
}

// Forwards before the first backward: the way to the last chunk, and back up from the last stage
// (Narayanan et al. 2021, figure 4).
dim_t warm_up(const ScheduleShape& shape, int stage) {
  return 2 * (shape.stages - stage - 1) + (shape.virtual_stages - 1) * shape.stages;
}

}  // namespace

// Backwards take the chunks from the last to the first, in the same groups.
Plan plan_interleaved(const ScheduleShape& shape, int stage) {
  const std::vector<Pass> order = order_of(shape);
  const auto count = static_cast<dim_t>(order.size());
  const auto existing = static_cast<dim_t>(shape.micro_batches.size());
  const dim_t ahead = std::min(count, warm_up(shape, stage));
  PlanBuilder builder(shape, stage);
  const auto forward = [&](dim_t k) {
    const Pass& pass = order[static_cast<std::size_t>(k)];
    if (pass.micro_batch < existing) {
      builder.forward(pass.micro_batch, pass.chunk);
    }
  };
  const auto backward = [&](dim_t k) {
    const Pass& pass = order[static_cast<std::size_t>(k)];
    if (pass.micro_batch < existing) {
      builder.backward(pass.micro_batch, shape.virtual_stages - 1 - pass.chunk);
    }
  };
  for (dim_t k = 0; k < ahead; ++k) {
    forward(k);
  }
  for (dim_t k = ahead; k < count; ++k) {
    forward(k);
    backward(k - ahead);
  }
  for (dim_t k = count - ahead; k < count; ++k) {
    backward(k);
  }
  return builder.finish();
}

// The slots of a chunk stay its own: the sum over chunks of the most that each holds at once, which
// is what went forward through it and has not come back.
int promise_interleaved(const ScheduleShape& shape, int stage) {
  const std::vector<Pass> order = order_of(shape);
  const auto existing = static_cast<dim_t>(shape.micro_batches.size());
  const auto ahead = static_cast<std::size_t>(warm_up(shape, stage));
  const auto chunks = static_cast<std::size_t>(shape.virtual_stages);
  std::vector<int> held(chunks, 0);
  std::vector<int> most(chunks, 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto chunk = static_cast<std::size_t>(order[k].chunk);
    if (order[k].micro_batch < existing) {
      most[chunk] = std::max(most[chunk], ++held[chunk]);
    }
    if (k >= ahead && order[k - ahead].micro_batch < existing) {
      --held[chunks - 1 - static_cast<std::size_t>(order[k - ahead].chunk)];
    }
  }
  return std::accumulate(most.begin(), most.end(), 0);
}

}  // namespace cambium::schedule
