// phases/mtssl_task.hpp — the last stage's part of a semi-supervised step. Micro-batches of each
// data shard, in order: teacher (unchanged unlabelled texts, forward only), meta (labelled, forward
// only), labelled, strong (masked unlabelled). a_i = <g_meta, g_i> over the head's parameters:
// g_meta is complete only when every data shard's meta texts were seen, so the strong texts'
// (softmax - pseudo-label) and hidden states are kept and multiplied at the end of the pass
// (methods.md §2.4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/engine.hpp"
#include "phases/classification.hpp"
#include "phases/threshold.hpp"

namespace cambium::phases {

enum class Role : int { teacher = 0, meta = 1, labelled = 2, strong = 3 };

struct MtsslStep {
  double tau = 0;
  double temperature = 0.3;
  double lambda = 1;        // weight of the unlabelled loss
  double labelled = 0;      // texts of the whole step that are trained on
  double meta = 0;          // texts of the whole step in the meta batch
  double unlabelled = 0;    // B_u
  bool is_learned = false;  // a meta batch is there
};

// What is summed over data shards, in this order.
enum : dim_t { kLabelledLoss, kUnlabelledLoss, kProducts, kMask, kPassed, kCorrect, kMtsslWidth };

class MtsslTask : public engine::ClassifyTask {
 public:
  // texts[i]: the texts of micro-batch i; a strong micro-batch takes the pseudo-labels of
  // `teacher_of[i]`.
  MtsslTask(engine::Engine& engine,
            comm::MeshGroups& groups,
            const params::Partition& where,
            const std::vector<TextMicroBatch>& texts,
            const std::vector<std::size_t>& teacher_of);

  void begin(const MtsslStep& step);
  void run(std::size_t index,
           const engine::MicroBatch& batch,
           device::View h,
           device::View dh) override;

  // After the pass, on the last stage: kMtsslWidth values per local data shard. Collective over:
  // data, tensor.
  [[nodiscard]] std::vector<double> finish();

 private:
  struct Kept {
    std::vector<std::int32_t> pseudo;  // teacher: argmax; ties to the lower class
    std::vector<double> confidence;    // teacher: logit of the largest probability
    std::vector<double> mask;          // strong
    dim_t data_shard = 0;
    // strong: what products see, widened to the dtype of sums. residual is (B, C/tp) per local
    // tensor shard, unscaled softmax - onehot; hidden is (B, D).
    device::Buffer residual;
    device::Buffer hidden;
  };

  void run_teacher(std::size_t index, const engine::MicroBatch& batch, device::View h);
  void run_meta(std::size_t index, const engine::MicroBatch& batch, device::View h);
  void run_labelled(std::size_t index,
                    const engine::MicroBatch& batch,
                    device::View h,
                    device::View dh);
  void run_strong(std::size_t index,
                  const engine::MicroBatch& batch,
                  device::View h,
                  device::View dh);
  void keep_strong(std::size_t index, const std::vector<std::int32_t>& pseudo);
  [[nodiscard]] device::View reduce_meta_gradient();
  [[nodiscard]] std::vector<double> products(device::View meta);
  [[nodiscard]] double& value(dim_t shard, dim_t what);

  engine::Engine& engine_;
  comm::MeshGroups& groups_;
  const params::Partition where_;
  const std::vector<TextMicroBatch>& texts_;
  const std::vector<std::size_t>& teacher_of_;
  MtsslStep step_;
  std::vector<Kept> kept_;
  std::vector<double> values_;
  std::vector<device::Buffer>
      meta_;  // per local data shard: all local (C/tp, D), one after the other
  device::Buffer meta_total_;
  device::Buffer workspace_;
  dim_t head_elements_ = 0;  // of all local tensor shards
};

}  // namespace cambium::phases
