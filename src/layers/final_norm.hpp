// layers/final_norm.hpp — the norm before the head, the blocks behind it, and the gathered hidden
// states.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/gated_block.hpp"
#include "layers/norm.hpp"
#include "layers/tensor_context.hpp"

namespace cambium::layers {

class FinalNorm {
 public:
  FinalNorm(const Norm& norm,
            std::vector<GatedBlock> blocks,
            TensorContext& context,
            Arena& activations);

  struct Saved {
    Buffer memory;
    View x;
    NormStatistics kept;
    View normed;  // stream rows, where blocks follow
    View h;       // (T*B, D)
    View dh;      // stream rows: the head leaves it here in forward; all that is kept of the head
    std::vector<GatedBlock::Saved> blocks;
  };

  [[nodiscard]] Saved make_saved(Arena& activations);

  // Returns the hidden states of all rows (T*B, D). Collective over: tensor.
  View forward(View x, Saved& saved, Mode mode);
  // From saved.dh (overwritten) into dx (stream rows).
  void backward_input(Saved& saved, View dx);
  void backward_weight(Saved& saved);

 private:
  Norm norm_;
  std::vector<GatedBlock> blocks_;
  TensorContext& context_;
  Buffer gradients_;
  std::vector<View> block_gradients_;  // [j]: gradient of block j's input
};

}  // namespace cambium::layers
