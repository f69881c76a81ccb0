// layers/embedding_layer.hpp — the vocabulary-parallel table at the first stage, and the blocks
// behind it. Order: a looked-up row is copied, never summed, so its bits survive any layout;
// gradients are added rows ascending.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/gated_block.hpp"
#include "layers/tensor_context.hpp"

namespace cambium::layers {

class EmbeddingLayer {
 public:
  EmbeddingLayer(Bucket& bucket,
                 std::vector<GatedBlock> blocks,
                 TensorContext& context,
                 Arena& activations);

  struct Saved {
    Buffer memory;
    View full;  // (T*B, D): looked-up rows; the own stream rows are the output
    std::vector<GatedBlock::Saved> blocks;
  };

  [[nodiscard]] Saved make_saved(Arena& activations) const;

  // ids (1, T*B) i32, every one inside the vocabulary. Collective over: tensor.
  View forward(View ids, Saved& saved, Mode mode);
  [[nodiscard]] View incoming() const;
  void backward_input(Saved& saved);
  void backward_weight(View ids, Saved& saved);

 private:
  Bucket& bucket_;
  std::vector<GatedBlock> blocks_;
  TensorContext& context_;
  Buffer gradients_;
  View d_full_;  // (T*B, D)
  std::vector<View> block_gradients_;
};

}  // namespace cambium::layers
