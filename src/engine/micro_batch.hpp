// engine/micro_batch.hpp — what one pass through the pipeline works on. Typed: a forward-only
// micro-batch (a teacher's view, validation, a probe) takes part in the schedule and leaves nothing
// behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/view.hpp"
#include "layers/gated_block.hpp"

namespace cambium::engine {

enum class Task : std::uint8_t { language_model, classify };

struct MicroBatch {
  layers::Mode mode = layers::Mode::train;
  Task task = Task::language_model;
  dim_t data_shard = 0;         // index among this rank's logical data shards; ascending
  device::View ids;             // (1, T*B) i32, position-major; read by the first stage
  device::View targets;         // (1, T*B) i32; language_model, read by the last stage
  double scale = 0;             // 1 / valid tokens of the whole step; train
  std::vector<dim_t> last_row;  // classify: row of each sample's last real token
  int role = 0;                 // classify: what it means to the phase
};

// A classification phase's part on the last stage.
class ClassifyTask {
 public:
  virtual ~ClassifyTask() = default;

  // h (T*B, D) of micro-batch `index`. In train mode dh (stream rows) must get the gradient.
  // Collective over: tensor.
  virtual void run(std::size_t index, const MicroBatch& batch, device::View h, device::View dh) = 0;
};

}  // namespace cambium::engine
