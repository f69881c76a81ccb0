// layers/classifier_head.hpp — sequence classification on the last real token: class-parallel
// logits, small enough that every tensor rank sees all of a micro-batch's logits. Order: statistics
// by logical shard, shards by the tree; dW samples ascending, one chain; dh shards by the tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "layers/tensor_context.hpp"

namespace cambium::layers {

class ClassifierHead {
 public:
  ClassifierHead(Bucket& bucket, TensorContext& context, Arena& activations);

  struct Scores {
    std::vector<std::int32_t> predicted;  // argmax; ties go to the lower class
    std::vector<double>
        confidence_logit;  // logit of the largest probability: -log(sum of exp(logit - max) - 1)
  };

  // Logits of the micro-batch. rows[b]: row of sample b's last real token in h (T*B, D). Collective
  // over: tensor.
  Scores score(View h, const std::vector<dim_t>& rows);

  // Cross-entropy of each sample against targets[b] (kIgnore: 0), after score(). fp64 of the run
  // dtype's values.
  std::vector<double> losses(const std::vector<std::int32_t>& targets);

  // dlogits of local shard i, (B, C/tp) = (softmax - onehot) * scale * weight[b]; weight empty:
  // all 1. After losses().
  View logits_gradient(dim_t i,
                       const std::vector<std::int32_t>& targets,
                       const std::vector<double>& weight,
                       double scale);

  // From the local dlogits: dh (stream rows, other rows zero) and the table's gradient. Collective
  // over: tensor.
  void backward(const std::vector<View>& dlogits, View dh);

  // The hidden states of the scored samples, (B, D).
  [[nodiscard]] View selected() const {
    return selected_;
  }

  // (C/tp, D) += dlogits^T selected, for a gradient kept apart from the table's.
  void add_head_gradient(View dlogits, View gradient);

  [[nodiscard]] Part& part(dim_t i);

 private:
  Bucket& bucket_;
  TensorContext& context_;
  Buffer memory_;
  Buffer targets_memory_;
  std::vector<View> blocks_;     // of every logical shard (B, C/tp), one after the other
  std::vector<View> gradients_;  // per local shard
  View all_logits_;
  View selected_;  // (B, D)
  View statistics_, maximum_, sum_, loss_, weight_;
  View targets_;                 // (1, B) i32
  std::vector<View> dh_leaves_;  // (B, D)
  View dh_selected_;
  std::vector<dim_t> rows_;
  std::vector<std::size_t> gather_bytes_;
  Buffer workspace_;
};

}  // namespace cambium::layers
