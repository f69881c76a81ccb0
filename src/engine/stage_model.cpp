// SPDX-License-Identifier: Apache-2.0
#include "engine/stage_model.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace cambium::engine {

using device::View;

StageModel::StageModel(const model::Spec& spec,
                       params::ParamStore& store,
                       device::Stream& stream,
                       comm::Group& tensor,
                       const layers::TensorShape& shape,
                       Recompute recompute,
                       BackwardOrder order)
    : context(stream, tensor, shape, store.arenas().activations, store.arenas().communication),
      store_(store),
      recompute_(recompute),
      order_(order) {
  device::Arena& activations = store.arenas().activations;
  const params::Partition& where = store.partition();
  if (where.is_first()) {
    embedding.emplace(*store.find(spec.embedding_uid),
                      spec.positions_uid != 0 ? store.find(spec.positions_uid) : nullptr,
                      make_blocks(spec.after_embedding),
                      context,
                      activations);
  }
  layers.reserve(static_cast<std::size_t>(where.stages.layer_count(where.place.pipeline)));
  for (int chunk = 0; chunk < where.chunks(); ++chunk) {
    const Range mine = where.layers(chunk);
    const auto begin = static_cast<dim_t>(layers.size());
    for (dim_t i = mine.begin; i < mine.end; ++i) {
      add_layer(spec.layers[static_cast<std::size_t>(i)]);
    }
    chunks_.push_back({begin, static_cast<dim_t>(layers.size())});
  }
  place_gradients();
  if (where.is_last()) {
    norm.emplace(layers::Norm{.kind = spec.norm,
                              .eps = spec.norm_eps,
                              .width = spec.norm_width,
                              .bucket = store.find(spec.norm_uid),
                              .gain = 0,
                              .bias = 1},
                 make_blocks(spec.after_norm),
                 context,
                 activations);
    params::Bucket& table = spec.is_tied ? *store.head_table() : *store.find(spec.head_uid);
    head.emplace(table, table.lanes() - 1, context, activations, store.arenas().communication);
    if (spec.classifier_uid != 0) {
      classifier.emplace(*store.find(spec.classifier_uid), context, activations);
    }
  }
}

void StageModel::add_layer(const model::LayerSpec& l) {
  std::vector<std::vector<layers::GatedBlock>> blocks;
  for (const auto& inserted : l.inserted) {
    blocks.push_back(make_blocks(inserted));
  }
  layers.emplace_back(l,
                      *store_.find(l.uid),
                      std::move(blocks),
                      l.has_rope ? &rope_table(l.rope_theta, l.head_width) : nullptr,
                      context,
                      recompute_);
}

void StageModel::place_gradients() {
  device::Arena& activations = store_.arenas().activations;
  if (order_ == BackwardOrder::split) {
    for (layers::DecoderLayer& l : layers) {
      l.place_gradients(activations);
    }
    return;
  }
  std::size_t work = 0;
  std::size_t incoming[2] = {0, 0};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const layers::DecoderLayer::Shared wanted = layers[i].shared_bytes();
    work = std::max(work, wanted.work_bytes);
    incoming[i % 2] = std::max(incoming[i % 2], wanted.incoming_bytes);
  }
  work_ = activations.allocate(work);
  for (int i = 0; i < 2; ++i) {
    incoming_[i] = activations.allocate(incoming[i]);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].place_gradients(incoming_[i % 2], work_);
  }
}

std::vector<layers::GatedBlock> StageModel::make_blocks(
    const std::vector<model::InsertedBlock>& specs) {
  std::vector<layers::GatedBlock> blocks;
  for (const model::InsertedBlock& b : specs) {
    blocks.emplace_back(b, *store_.find(b.uid), context);
  }
  return blocks;
}

dim_t StageModel::first_layer(int chunk) const {
  return store_.partition().layers(chunk).begin;
}

const layers::RopeTable& StageModel::rope_table(double theta, dim_t head_width) {
  for (const layers::RopeTable& t : rope_) {
    if (t.theta == theta && t.head_width == head_width) {
      return t;
    }
  }
  return rope_.emplace_back(theta,
                            head_width,
                            context.shape.positions,
                            context.shape.sums(),
                            store_.arenas().activations);
}

Slot StageModel::make_slot(int chunk) {
  device::Arena& activations = store_.arenas().activations;
  Slot slot;
  if (has_embedding(chunk)) {
    slot.embedding = embedding->make_saved(activations);
  }
  for (layers::DecoderLayer& l : layers_of(chunk)) {
    slot.layers.push_back(l.make_saved(activations));
  }
  if (has_norm(chunk)) {
    slot.norm = norm->make_saved(activations);
  }
  return slot;
}

View StageModel::forward(View x, View ids, Slot& slot, layers::Mode mode, int chunk) {
  if (has_embedding(chunk)) {
    x = embedding->forward(ids, *slot.embedding, mode);
  }
  const std::span<layers::DecoderLayer> mine = layers_of(chunk);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    x = mine[i].forward(x, slot.layers[i], mode);
  }
  slot.output = x;
  return x;
}

View StageModel::incoming(int chunk) const {
  return layers[static_cast<std::size_t>(chunks_[static_cast<std::size_t>(chunk)].end) - 1]
      .incoming();
}

void StageModel::backward_input(Slot& slot, View dx, const LayerDone& done, int chunk) {
  const std::span<layers::DecoderLayer> mine = layers_of(chunk);
  if (has_norm(chunk)) {
    norm->backward_input(*slot.norm, mine.back().incoming());
  }
  for (std::size_t i = mine.size(); i-- > 0;) {
    View to = dx;
    if (i > 0) {
      to = mine[i - 1].incoming();
    } else if (has_embedding(chunk)) {
      to = embedding->incoming();
    }
    if (order_ == BackwardOrder::together) {
      mine[i].recompute(slot.layers[i]);
    }
    mine[i].backward_input(slot.layers[i], to);
    if (order_ == BackwardOrder::together) {
      mine[i].backward_weight(slot.layers[i]);
      done(first_layer(chunk) + static_cast<dim_t>(i));
    }
  }
  if (has_embedding(chunk)) {
    embedding->backward_input(*slot.embedding);
  }
}

void StageModel::backward_weight(View ids, Slot& slot, const LayerDone& done, int chunk) {
  if (has_norm(chunk)) {
    norm->backward_weight(*slot.norm);
    done(store_.partition().stages.first.back());
  }
  const std::span<layers::DecoderLayer> mine = layers_of(chunk);
  for (std::size_t i = mine.size(); i-- > 0 && order_ == BackwardOrder::split;) {
    mine[i].backward_weight(slot.layers[i]);
    done(first_layer(chunk) + static_cast<dim_t>(i));
  }
  if (has_embedding(chunk)) {
    embedding->backward_weight(ids, *slot.embedding);
    done(-1);
  }
}

}  // namespace cambium::engine
