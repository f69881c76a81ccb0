// layers/embedding_layer.hpp — the vocabulary-parallel table at the first stage, learned positions
// where the family has them, and the blocks behind it. Order: a looked-up row is copied, never
// summed, so its bits survive any layout; the position's row is added once. Gradients of the table
// are added rows ascending, those of the positions too, over each shard's slice of the sequence by
// itself (a token sum, design.md §1.8).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/gated_block.hpp"
#include "layers/tensor_context.hpp"

namespace cambium::layers {

class EmbeddingLayer {
 public:
  // `positions` is null where the layers turn their queries and keys.
  EmbeddingLayer(Bucket& bucket,
                 Bucket* positions,
                 std::vector<GatedBlock> blocks,
                 TensorContext& context,
                 Arena& activations);

  struct Saved {
    Buffer memory;
    View full;  // (T*B, D): looked-up rows; the own stream rows, with positions, are the output
    std::vector<GatedBlock::Saved> blocks;
  };

  [[nodiscard]] Saved make_saved(Arena& activations);

  // ids (1, T*B) i32, every one inside the vocabulary. Collective over: tensor.
  View forward(View ids, Saved& saved, Mode mode);
  [[nodiscard]] View incoming() const;
  void backward_input(Saved& saved);
  void backward_weight(View ids, Saved& saved);

 private:
  void add_positions(View x);
  void add_position_gradient();

  Bucket& bucket_;
  Bucket* positions_;
  std::vector<GatedBlock> blocks_;
  TensorContext& context_;
  Buffer gradients_;
  View d_full_;  // (T*B, D)
  std::vector<View> block_gradients_;
};

}  // namespace cambium::layers
