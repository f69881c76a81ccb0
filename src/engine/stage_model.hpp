// engine/stage_model.hpp — the layers of this rank's stage, built from the spec over the store's
// buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "layers/classifier_head.hpp"
#include "layers/decoder_layer.hpp"
#include "layers/embedding_layer.hpp"
#include "layers/final_norm.hpp"
#include "layers/language_model_head.hpp"
#include "params/param_store.hpp"

namespace cambium::engine {

// What one micro-batch in flight keeps on this stage.
struct Slot {
  std::optional<layers::EmbeddingLayer::Saved> embedding;
  std::vector<layers::DecoderLayer::Saved> layers;
  std::optional<layers::FinalNorm::Saved> norm;
  device::View output;  // stream rows, what the next stage gets
};

class StageModel {
 public:
  StageModel(const model::Spec& spec,
             params::ParamStore& store,
             device::Stream& stream,
             comm::Group& tensor,
             const layers::TensorShape& shape);

  layers::TensorContext context;
  std::optional<layers::EmbeddingLayer> embedding;
  std::vector<layers::DecoderLayer> layers;
  std::optional<layers::FinalNorm> norm;
  std::optional<layers::LanguageModelHead> head;
  std::optional<layers::ClassifierHead> classifier;

  [[nodiscard]] Slot make_slot();

  // x: this stage's input (stream rows), unused on the first stage. Returns the last layer's output
  // (stream rows).
  device::View forward(device::View x, device::View ids, Slot& slot, layers::Mode mode);

  // Where the gradient of the stage's output must stand; not on the last stage, which has its own.
  [[nodiscard]] device::View incoming() const;
  // dx: gradient of the stage's input; unused on the first stage.
  void backward_input(Slot& slot, device::View dx);
  void backward_weight(device::View ids, Slot& slot);

 private:
  std::vector<layers::GatedBlock> make_blocks(const std::vector<model::InsertedBlock>& specs);
  const layers::RopeTable& rope_table(double theta, dim_t head_width);

  params::ParamStore& store_;
  std::list<layers::RopeTable> rope_;  // layers keep references
};

}  // namespace cambium::engine
