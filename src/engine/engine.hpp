// engine/engine.hpp — walks the schedule's actions for this stage, and makes one update of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "config/optimizer_config.hpp"
#include "engine/micro_batch.hpp"
#include "engine/stage_model.hpp"
#include "optimizer/gradient_sync.hpp"
#include "optimizer/optimizer.hpp"
#include "schedule/schedule.hpp"

namespace cambium::engine {

struct EngineShape {
  std::string schedule = "1f1b";
  Recompute recompute = Recompute::none;
  bool is_overlapped = true;  // the data reduction, with backward
  layers::TensorShape tensor;
};

// One action as it ran; seconds since the pass began.
struct TracedAction {
  schedule::ActionKind kind;
  dim_t micro_batch;
  int chunk;
  double begin;
  double end;
};

// Hooks of a pass; all may be empty.
struct PassHooks {
  ClassifyTask* classify = nullptr;
  layers::LanguageModelHead::LogitsProbe
      logits;  // forward-only language-model micro-batches on the last stage
  std::function<void(const char* action)> beat;  // before each action: the watchdog's heartbeat
  std::vector<TracedAction>* trace = nullptr;
};

class Engine {
 public:
  Engine(const model::Spec& spec,
         params::ParamStore& store,
         device::Stream& stream,
         comm::MeshGroups& groups,
         const EngineShape& shape);

  // Runs the micro-batches (this rank's data shards ascending). Returns the sum of losses of
  // language-model micro-batches by local data shard on the last stage; zeros elsewhere. Gradients
  // of train micro-batches are ready for reduce(). The result stands until the next run. Collective
  // over: tensor, pipeline.
  const std::vector<double>& run(std::span<const MicroBatch> batches, const PassHooks& hooks);

  // The tree over logical data shards of the last stage's per-shard values (local shards × width,
  // shard-major), known to every rank of the pipeline afterwards. Collective over: data (last
  // stage), pipeline.
  [[nodiscard]] std::vector<double> sum_over_data(std::span<const double> leaves, dim_t width);

  [[nodiscard]] StageModel& model() {
    return model_;
  }

  [[nodiscard]] optimizer::GradientSync& sync() {
    return sync_;
  }

  [[nodiscard]] optimizer::Optimizer& optimizer() {
    return optimizer_;
  }

  [[nodiscard]] const EngineShape& shape() const {
    return shape_;
  }

  [[nodiscard]] bool is_last_stage() const {
    return groups_.pipeline->rank() == groups_.pipeline->size() - 1;
  }

 private:
  void prepare(std::span<const MicroBatch> batches);
  void post_receive(const schedule::Action& action);
  void run_action(const schedule::Action& action,
                  std::span<const MicroBatch> batches,
                  const PassHooks& hooks);
  void forward(const schedule::Action& action, const MicroBatch& batch, const PassHooks& hooks);
  void backward(const schedule::Action& action, const MicroBatch& batch, const PassHooks& hooks);
  void run_head(const schedule::Action& action, const MicroBatch& batch, const PassHooks& hooks);
  [[nodiscard]] device::View edge(device::Buffer& buffer) const;

  // A micro-batch's memory in one chunk.
  struct Place {
    Slot slot;
    comm::Request send;  // its output is still on its way
    // What closed layers passed on, sent from here: the input's own buffer is soon received into.
    device::Buffer passed_on = {};
  };

  [[nodiscard]] Place& place_of(const schedule::Action& action);
  device::View pass_on(Place& place, device::View input);
  [[nodiscard]] int& input_of(const schedule::Action& action);

  // The other side of a boundary: a stage, and the tag of messages to a chunk of it.
  struct Peer {
    int rank;
    int tag;
  };

  [[nodiscard]] Peer next_of(int chunk) const;  // where activations go
  [[nodiscard]] Peer before(int chunk) const;   // where gradients go

  params::ParamStore& store_;
  comm::MeshGroups& groups_;
  EngineShape shape_;
  StageModel model_;
  optimizer::GradientSync sync_;
  optimizer::Optimizer optimizer_;

  schedule::ScheduleShape plan_shape_;
  schedule::Plan plan_;

  std::vector<std::vector<Place>> places_;  // by chunk, slot
  std::vector<device::Buffer> inputs_;
  std::vector<comm::Request> input_receives_;
  device::Buffer gradient_in_[2];
  device::Buffer gradient_out_[2];
  comm::Request gradient_receives_[2];
  comm::Request gradient_sends_[2];
  std::vector<int> input_of_;           // by chunk, micro-batch
  std::vector<char> is_last_of_shard_;  // by micro-batch: its backward_weight ends a data shard
  dim_t gradients_posted_ = 0;
  dim_t gradients_taken_ = 0;
  dim_t gradients_sent_ = 0;
  std::vector<double> losses_;
};

}  // namespace cambium::engine
