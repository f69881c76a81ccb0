// engine/stage_model.hpp — the layers of this rank's stage, built from the spec over the store's
// buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layers/classifier_head.hpp"
#include "layers/decoder_layer.hpp"
#include "layers/embedding_layer.hpp"
#include "layers/final_norm.hpp"
#include "layers/language_model_head.hpp"
#include "params/param_store.hpp"

namespace cambium::engine {

// What one micro-batch in flight keeps on a chunk of this stage: embedding of the first virtual
// stage, norm of the last.
struct Slot {
  std::optional<layers::EmbeddingLayer::Saved> embedding;
  std::vector<layers::DecoderLayer::Saved> layers;
  std::optional<layers::FinalNorm::Saved> norm;
  device::View output;  // stream rows, what the next stage gets
};

// split: backward_input of the whole chunk, for which the one before waits, then backward_weight of
// all layers; each layer has memory of its own for what lies between. together: a layer's
// backward_weight follows its backward_input, so that layers share that memory. Same bits.
enum class BackwardOrder : std::uint8_t { split, together };

// Called as soon as a backward has left every weight gradient of what lives in `layer` (-1: before
// the first, number of layers: behind the last), last layer first.
using LayerDone = std::function<void(dim_t layer)>;

class StageModel {
 public:
  // Recomputation needs BackwardOrder::together.
  StageModel(const model::Spec& spec,
             params::ParamStore& store,
             device::Stream& stream,
             comm::Group& tensor,
             const layers::TensorShape& shape,
             Recompute recompute,
             BackwardOrder order);

  layers::TensorContext context;
  std::optional<layers::EmbeddingLayer> embedding;
  std::vector<layers::DecoderLayer> layers;  // of all chunks
  std::optional<layers::FinalNorm> norm;
  std::optional<layers::LanguageModelHead> head;
  std::optional<layers::ClassifierHead> classifier;

  [[nodiscard]] int chunks() const {
    return static_cast<int>(chunks_.size());
  }

  [[nodiscard]] Slot make_slot(int chunk = 0);

  // x: the chunk's input (stream rows), unused on the first virtual stage. Returns its last layer's
  // output (stream rows).
  device::View forward(
      device::View x, device::View ids, Slot& slot, layers::Mode mode, int chunk = 0);

  // Where the gradient of the chunk's output must stand; not on the last virtual stage, which has
  // its own.
  [[nodiscard]] device::View incoming(int chunk = 0) const;
  // dx: gradient of the chunk's input; unused on the first virtual stage. With
  // BackwardOrder::together the layers' weight gradients are added here, so micro-batches must come
  // in ascending order.
  void backward_input(Slot& slot, device::View dx, const LayerDone& done, int chunk = 0);
  void backward_weight(device::View ids, Slot& slot, const LayerDone& done, int chunk = 0);

 private:
  [[nodiscard]] std::span<layers::DecoderLayer> layers_of(int chunk) {
    const Range range = chunks_[static_cast<std::size_t>(chunk)];
    return std::span(layers).subspan(static_cast<std::size_t>(range.begin),
                                     static_cast<std::size_t>(range.size()));
  }

  void add_layer(const model::LayerSpec& l);
  std::vector<layers::GatedBlock> make_blocks(const std::vector<model::InsertedBlock>& specs);
  const layers::RopeTable& rope_table(double theta, dim_t head_width);

  [[nodiscard]] bool has_embedding(int chunk) const {
    return embedding && chunk == 0;
  }

  [[nodiscard]] bool has_norm(int chunk) const {
    return norm && chunk + 1 == chunks();
  }

  [[nodiscard]] dim_t first_layer(int chunk) const;
  void place_gradients();

  params::ParamStore& store_;
  Recompute recompute_;
  BackwardOrder order_;
  device::Buffer incoming_[2];         // together: of layers in turn
  device::Buffer work_;                // together: of the layer at work
  std::vector<Range> chunks_;          // of `layers`
  std::list<layers::RopeTable> rope_;  // layers keep references
};

}  // namespace cambium::engine
