// SPDX-License-Identifier: Apache-2.0
#include "phases/mtssl_task.hpp"

#include <cstring>

#include "kernels/elementwise.hpp"

namespace cambium::phases {

using device::View;

namespace {

double element(View v, dim_t i) {
  return v.dtype == device::DType::f64 ? v.as<double>()[i] : static_cast<double>(v.as<float>()[i]);
}

}  // namespace

MtsslTask::MtsslTask(engine::Engine& engine,
                     comm::MeshGroups& groups,
                     const params::Partition& where,
                     const std::vector<TextMicroBatch>& texts,
                     const std::vector<std::size_t>& teacher_of)
    : engine_(engine),
      groups_(groups),
      where_(where),
      texts_(texts),
      teacher_of_(teacher_of),
      kept_(texts.size()) {
  values_.assign(static_cast<std::size_t>(where.data_shards().size() * kMtsslWidth), 0.0);
  if (!engine.model().classifier) {
    return;
  }
  const layers::TensorContext& context = engine.model().context;
  for (dim_t i = 0; i < context.shards().size(); ++i) {
    head_elements_ += engine.model().classifier->part(i).elements;
  }
  const std::size_t bytes =
      static_cast<std::size_t>(head_elements_) * device::bytes_of(context.shape.sums());
  for (dim_t s = 0; s < where.data_shards().size(); ++s) {
    meta_.emplace_back(bytes);
  }
  meta_total_ = device::Buffer(bytes);
}

double& MtsslTask::value(dim_t shard, dim_t what) {
  return values_[static_cast<std::size_t>(shard * kMtsslWidth + what)];
}

void MtsslTask::begin(const MtsslStep& step) {
  step_ = step;
  std::fill(values_.begin(), values_.end(), 0.0);
  for (device::Buffer& m : meta_) {
    std::memset(m.data(), 0, m.bytes());
  }
}

void MtsslTask::run(std::size_t index, const engine::MicroBatch& batch, View h, View dh) {
  switch (static_cast<Role>(batch.role)) {
    case Role::teacher:
      return run_teacher(index, batch, h);
    case Role::meta:
      return run_meta(index, batch, h);
    case Role::labelled:
      return run_labelled(index, batch, h, dh);
    case Role::strong:
      return run_strong(index, batch, h, dh);
  }
}

void MtsslTask::run_teacher(std::size_t index, const engine::MicroBatch& batch, View h) {
  const auto scores = engine_.model().classifier->score(h, batch.last_row);
  kept_[index].pseudo = scores.predicted;
  kept_[index].confidence = scores.confidence_logit;
}

// Adds to the labelled meta gradient of the head, texts ascending within the data shard.
void MtsslTask::run_meta(std::size_t index, const engine::MicroBatch& batch, View h) {
  layers::ClassifierHead& head = *engine_.model().classifier;
  (void)head.score(h, batch.last_row);
  (void)head.losses(texts_[index].labels);
  const device::Buffer& memory = meta_[static_cast<std::size_t>(batch.data_shard)];
  const device::DType t = engine_.model().context.shape.sums();
  dim_t offset = 0;
  for (dim_t i = 0; i < engine_.model().context.shards().size(); ++i) {
    const params::Part& p = head.part(i);
    const View gradient = memory.view(
        t, p.rows.size(), p.cols.size(), static_cast<std::size_t>(offset) * device::bytes_of(t));
    head.add_head_gradient(head.logits_gradient(i, texts_[index].labels, {}, 1.0 / step_.meta),
                           gradient);
    offset += p.elements;
  }
}

void MtsslTask::run_labelled(std::size_t index, const engine::MicroBatch& batch, View h, View dh) {
  layers::ClassifierHead& head = *engine_.model().classifier;
  const std::vector<std::int32_t>& labels = texts_[index].labels;
  const auto scores = head.score(h, batch.last_row);
  for (const double loss : head.losses(labels)) {
    value(batch.data_shard, kLabelledLoss) += loss;
  }
  for (std::size_t b = 0; b < labels.size(); ++b) {
    value(batch.data_shard, kCorrect) += scores.predicted[b] == labels[b] ? 1 : 0;
  }
  std::vector<View> gradients;
  for (dim_t i = 0; i < engine_.model().context.shards().size(); ++i) {
    gradients.push_back(head.logits_gradient(i, labels, {}, 1.0 / step_.labelled));
  }
  head.backward(gradients, dh);
}

void MtsslTask::run_strong(std::size_t index, const engine::MicroBatch& batch, View h, View dh) {
  layers::ClassifierHead& head = *engine_.model().classifier;
  const Kept& teacher = kept_[teacher_of_[index]];
  Kept& kept = kept_[index];
  kept.data_shard = batch.data_shard;
  (void)head.score(h, batch.last_row);
  const std::vector<double> losses = head.losses(teacher.pseudo);
  kept.mask.clear();
  for (std::size_t b = 0; b < losses.size(); ++b) {
    const double u = teacher.confidence[b];
    kept.mask.push_back(soft_mask(u, step_.tau, step_.temperature));
    value(batch.data_shard, kUnlabelledLoss) += kept.mask.back() * losses[b];
    value(batch.data_shard, kMask) += kept.mask.back();
    value(batch.data_shard, kPassed) += u >= step_.tau ? 1 : 0;
  }
  if (step_.is_learned) {
    keep_strong(index, teacher.pseudo);
  }
  std::vector<View> gradients;
  for (dim_t i = 0; i < engine_.model().context.shards().size(); ++i) {
    gradients.push_back(
        head.logits_gradient(i, teacher.pseudo, kept.mask, step_.lambda / step_.unlabelled));
  }
  head.backward(gradients, dh);
}

void MtsslTask::keep_strong(std::size_t index, const std::vector<std::int32_t>& pseudo) {
  layers::ClassifierHead& head = *engine_.model().classifier;
  device::Stream& stream = engine_.model().context.stream;
  const device::DType t = engine_.model().context.shape.sums();
  const dim_t batch = engine_.model().context.shape.batch;
  const dim_t hidden = engine_.model().context.shape.hidden;
  const dim_t classes = head_elements_ / hidden;
  Kept& kept = kept_[index];
  const std::size_t element = device::bytes_of(t);
  if (kept.residual.bytes() == 0) {
    kept.residual = device::Buffer(static_cast<std::size_t>(batch * classes) * element);
    kept.hidden = device::Buffer(static_cast<std::size_t>(batch * hidden) * element);
  }
  kernels::copy(stream, head.selected(), kept.hidden.view(t, batch, hidden));
  dim_t offset = 0;
  for (dim_t i = 0; i < engine_.model().context.shards().size(); ++i) {
    const View residual = head.logits_gradient(i, pseudo, {}, 1.0);
    kernels::copy(
        stream,
        residual,
        kept.residual.view(t, batch, residual.cols, static_cast<std::size_t>(offset) * element));
    offset += batch * residual.cols;
  }
}

// The meta gradient of all data shards, on every data rank: the tree over logical data shards.
View MtsslTask::reduce_meta_gradient() {
  const device::DType t = engine_.model().context.shape.sums();
  device::Stream& stream = engine_.model().context.stream;
  comm::Group& data = *groups_.data;
  const comm::ShardSum sum(where_.logical.data, data.size(), data.rank());
  const ResidentSum resident =
      plan_resident_sum(SumTree(where_.logical.data), where_.data_shards());
  std::vector<View> leaves;
  for (const device::Buffer& m : meta_) {
    leaves.push_back(m.view(t, 1, head_elements_));
  }
  for (const AddStep& step : resident.steps) {
    kernels::add_into(stream,
                      leaves[static_cast<std::size_t>(step.to)],
                      leaves[static_cast<std::size_t>(step.from)]);
  }
  std::vector<View> nodes;
  for (const dim_t slot : resident.node_slot) {
    nodes.push_back(leaves[static_cast<std::size_t>(slot)]);
  }
  const View total = meta_total_.view(t, 1, head_elements_);
  comm::tree_all_reduce(
      data, stream, sum, nodes, total, workspace_, engine_.model().context.shape.reduction);
  return total;
}

// a_i of every strong text of this rank, micro-batches ascending: sum over classes and features
// ascending within a logical tensor shard, in fp64, shards by the tree.
std::vector<double> MtsslTask::products(View meta) {
  const layers::TensorContext& context = engine_.model().context;
  const dim_t hidden = context.shape.hidden;
  const dim_t batch = context.shape.batch;
  std::vector<double> leaves;
  dim_t texts = 0;
  dim_t row = 0;  // first class of shard i in `meta`
  for (dim_t i = 0; i < context.shards().size(); ++i) {
    const dim_t classes = engine_.model().classifier->part(i).rows.size();
    texts = 0;
    for (const Kept& kept : kept_) {
      if (kept.mask.empty()) {
        continue;
      }
      const View h = kept.hidden.view(context.shape.sums(), batch, hidden);
      const View residual =
          kept.residual.view(context.shape.sums(), 1, batch * (head_elements_ / hidden));
      for (dim_t b = 0; b < batch; ++b, ++texts) {
        double a = 0;
        for (dim_t c = 0; c < classes; ++c) {
          double dot = 0;
          for (dim_t d = 0; d < hidden; ++d) {
            dot += element(meta, (row + c) * hidden + d) * element(h, b * hidden + d);
          }
          a += element(residual, batch * row + b * classes + c) * dot;
        }
        leaves.push_back(a);
      }
    }
    row += classes;
  }
  comm::Group& tensor = *groups_.tensor;
  const comm::ShardSum sum(context.shape.logical_tensor, tensor.size(), tensor.rank());
  return comm::tree_sum_scalars(tensor, sum, leaves, texts);
}

std::vector<double> MtsslTask::finish() {
  if (step_.is_learned && engine_.model().classifier) {
    const std::vector<double> a = products(reduce_meta_gradient());
    std::size_t at = 0;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].mask.empty()) {
        continue;
      }
      const Kept& teacher = kept_[teacher_of_[i]];
      for (const double u : teacher.confidence) {
        value(kept_[i].data_shard, kProducts) +=
            soft_mask_derivative(u, step_.tau, step_.temperature) * a[at++];
      }
    }
  }
  return values_;
}

}  // namespace cambium::phases
