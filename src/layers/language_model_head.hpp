// layers/language_model_head.hpp — head and loss as one op, by chunks of rows: logits, tree maximum
// and sum, dlogits, dh, dW. Only dh is kept. Logits of all rows never exist at once. Order: a row's
// statistics by shard, shards by the tree; dW rows ascending, one chain; the loss in fp64 per
// logical shard's slice of the sequence ascending, slices by the tree (design.md §1.8).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "layers/gated_block.hpp"
#include "layers/tensor_context.hpp"

namespace cambium::layers {

inline constexpr dim_t kHeadChunk = 256;

class LanguageModelHead {
 public:
  // `lane` of the bucket takes the head's gradient (1 for a tied table on the only stage).
  LanguageModelHead(
      Bucket& table, int lane, TensorContext& context, Arena& activations, Arena& communication);

  // Sees a chunk's logits of local shard i before they become gradients: rows [rows), (rows, V/tp).
  using LogitsProbe = std::function<void(Range rows, dim_t i, View logits)>;

  // h (T*B, D), targets (1, T*B) i32 (kIgnore counts for nothing). Returns the sum of the losses.
  // train: dh (stream rows) gets the gradient of scale * sum, and the table's gradient is added to.
  // Throws Error(bad_input), on all tensor ranks alike, for a label that is neither a class nor
  // kIgnore. Collective over: tensor.
  double forward(
      View h, View targets, double scale, Mode mode, View dh, const LogitsProbe& probe = {});

 private:
  void check_labels(View targets) const;
  void chunk_forward(Range rows, View h, View targets);
  void chunk_backward(Range rows, View h, View targets, double scale);
  [[nodiscard]] double sum_losses();

  Bucket& table_;
  int lane_;
  TensorContext& context_;
  Buffer memory_;
  Buffer exchange_;
  std::vector<View> logits_;  // per local shard (kHeadChunk, V/tp)
  View narrow_;               // their gradient, of one shard after the other, where it is narrower
  View statistics_;           // (3*shards, kHeadChunk), all logical shards
  View maximum_, sum_;        // (1, kHeadChunk)
  View losses_;               // (1, T*B)
  std::vector<View> dh_leaves_;  // per local shard (T*B, D)
  std::vector<std::size_t> gather_bytes_;
  std::vector<double> slices_;  // losses by logical tensor shard
};

}  // namespace cambium::layers
