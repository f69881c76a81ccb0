// SPDX-License-Identifier: Apache-2.0
#include "reference_run.hpp"

#include <cmath>

#include "support/bits.hpp"

namespace cambium::testing {
namespace {

// The samples (B, T) as micro-batches of shape.batch of them, the targets one position ahead; the
// last position has none.
std::vector<Tokens> cut(const RigShape& shape, const double* ids, const double* labels) {
  std::vector<Tokens> out;
  const dim_t count = kSamples / shape.batch;
  for (dim_t m = 0; m < count; ++m) {
    Tokens t{.data_shard = m / (count / shape.data)};
    for (dim_t at = 0; at < kPositions; ++at) {
      for (dim_t b = 0; b < shape.batch; ++b) {
        const dim_t row = (m * shape.batch + b) * kPositions + at;
        t.ids.push_back(static_cast<std::int32_t>(ids[row]));
        t.targets.push_back(at + 1 < kPositions ? static_cast<std::int32_t>(labels[row + 1])
                                                : -100);
      }
    }
    out.push_back(std::move(t));
  }
  return out;
}

// Puts rows (T*B) of micro-batch m in their places of (B, T, …).
void place(const RigShape& shape,
           dim_t m,
           const std::vector<double>& rows,
           std::vector<double>& to) {
  const dim_t width = static_cast<dim_t>(rows.size()) / (kPositions * shape.batch);
  to.resize(static_cast<std::size_t>(kSamples * kPositions * width));
  for (dim_t at = 0; at < kPositions; ++at) {
    for (dim_t b = 0; b < shape.batch; ++b) {
      std::copy_n(rows.begin() + (at * shape.batch + b) * width,
                  width,
                  to.begin() + ((m * shape.batch + b) * kPositions + at) * width);
    }
  }
}

void see_forward(Rig& rig, std::vector<Tokens>& tokens, Seen& seen) {
  engine::StageModel& model = rig.runner.model();
  engine::Slot slot = model.make_slot();
  for (std::size_t m = 0; m < tokens.size(); ++m) {
    const auto index = static_cast<dim_t>(m);
    const device::View ids =
        device::view_of(tokens[m].ids.data(), static_cast<dim_t>(tokens[m].ids.size()));
    (void)model.forward({}, ids, slot, layers::Mode::forward_only);
    const device::View h = model.norm->forward(slot.output, *slot.norm, layers::Mode::forward_only);
    place(rig.shape, index, values_of(slot.embedding->full), seen.hidden[0]);
    place(rig.shape, index, values_of(slot.layers[0].out), seen.hidden[1]);
    place(rig.shape, index, values_of(h), seen.hidden[2]);
    place(rig.shape, index, rig.logits(tokens[m]), seen.logits);
  }
}

double masked_loss(const Golden& golden, Rig& rig) {
  const Tensors& io = golden.io;
  std::vector<Tokens> tokens =
      cut(rig.shape, io.at("input_ids").values.data(), io.at("labels_masked").values.data());
  double valid = 0;
  for (const Tokens& t : tokens) {
    valid += static_cast<double>(
        std::count_if(t.targets.begin(), t.targets.end(), [](auto v) { return v >= 0; }));
  }
  return rig.run(micro_batches(tokens, 0, layers::Mode::forward_only)) / valid;
}

}  // namespace

Seen see(const Golden& golden, const RigShape& shape) {
  Rig rig(golden.spec, shape);
  for (const std::string& name : rig.names()) {
    rig.set_value(name, golden.model.at(name));
  }
  const Tensors& io = golden.io;
  const double* first = io.at("input_ids").values.data();
  std::vector<Tokens> tokens = cut(shape, first, first);
  Seen seen;
  see_forward(rig, tokens, seen);
  seen.loss_masked = masked_loss(golden, rig);
  seen.loss = rig.run(micro_batches(tokens, 1 / kValid)) / kValid;
  for (const std::string& name : rig.names()) {
    seen.gradients[name] = rig.gradient(name);
  }
  const config::OptimizerConfig adamw;
  for (dim_t step = 0; step < 3; ++step) {
    const double* ids = io.at("train_ids").values.data() + step * kSamples * kPositions;
    std::vector<Tokens> train = cut(shape, ids, ids);
    const auto [loss, tail] = rig.step(micro_batches(train, 1 / kValid), adamw, 1e-3);
    seen.train_losses.push_back(loss / kValid);
    seen.grad_norms.push_back(tail.norm);
  }
  seen.loss_after3 = rig.run(micro_batches(tokens, 0, layers::Mode::forward_only)) / kValid;
  for (const std::string& name : rig.names()) {
    seen.after3[name] = rig.value(name);
  }
  return seen;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(sum);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

namespace {

void expect_gradients(const Golden& golden, const Seen& seen) {
  EXPECT_EQ(seen.gradients.size(), golden.grads.size());
  for (const auto& [name, got] : seen.gradients) {
    const std::vector<double>& want = golden.grads.at(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    if (!golden.is_noise(name)) {
      EXPECT_LT(distance(got, want), 1e-4 * distance(want, std::vector<double>(want.size(), 0)))
          << name;
    }
    EXPECT_LT(largest_difference(got, want), 2e-6) << name;
  }
}

void expect_after3(const Golden& golden, const Seen& seen) {
  std::size_t elements = 0;
  std::size_t far = 0;
  for (const auto& [name, got] : seen.after3) {
    const std::vector<double>& want = golden.after3.at(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    elements += got.size();
    if (golden.is_noise(name)) {
      EXPECT_LT(largest_difference(got, want), 3.001e-3) << name;  // three updates of the rate
      continue;
    }
    EXPECT_LT(largest_difference(got, want), 3e-4) << name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      far += std::abs(got[i] - want[i]) > 2e-5 ? 1 : 0;
    }
  }
  EXPECT_EQ(elements, golden.meta.at("parameters").get<std::size_t>());
  EXPECT_LT(static_cast<double>(far), 1e-3 * static_cast<double>(elements));
}

}  // namespace

void expect_golden(const Golden& golden, const Seen& seen) {
  const Tensors& io = golden.io;
  for (int i = 0; i < 3; ++i) {
    EXPECT_CLOSE(seen.hidden[i], io.at("hidden." + std::to_string(i)).values, {.atol = 2e-5}) << i;
  }
  EXPECT_CLOSE(seen.logits, io.at("logits").values, {.atol = 2e-5});
  EXPECT_CLOSE(seen.loss, io.at("loss").values[0], {.atol = 1e-5});
  EXPECT_CLOSE(seen.loss_masked, io.at("loss_masked").values[0], {.atol = 1e-5});
  EXPECT_CLOSE(seen.train_losses, io.at("train_losses").values, {.atol = 1e-5});
  EXPECT_CLOSE(seen.grad_norms, io.at("grad_norms").values, {.atol = 1e-4});
  EXPECT_CLOSE(seen.loss_after3, io.at("loss_after3").values[0], {.atol = 1e-5});
  expect_gradients(golden, seen);
  expect_after3(golden, seen);
}

namespace {

void expect_near(double ours, double theirs, const std::string& what) {
  EXPECT_LE(ours, 3 * theirs) << what;
  EXPECT_GT(ours, 0.02 * theirs) << what << ": as if it were fp32";
}

double relative_distance(const Values& got, const Values& want) {
  EXPECT_EQ(got.size(), want.size());
  return distance(got, want) / distance(want, Values(want.size(), 0));
}

void append_difference(Values& to, const Values& a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    to.push_back(a[i] - b[i]);
  }
}

}  // namespace

void expect_near_public_bf16(const Golden& golden,
                             const Seen& seen,
                             const std::function<std::string(const std::string&)>& their_name) {
  const nlohmann::json& theirs = golden.bf16;
  const Tensors& io = golden.io;
  const nlohmann::json& tensors = theirs.at("relative_l2");
  for (int i = 0; i < 3; ++i) {
    const std::string name = "hidden." + std::to_string(i);
    expect_near(relative_distance(seen.hidden[i], io.at(name).values), tensors.at(name), name);
  }
  expect_near(
      relative_distance(seen.logits, io.at("logits").values), tensors.at("logits"), "logits");
  expect_near(std::max({largest_difference({seen.loss}, io.at("loss").values),
                        largest_difference({seen.loss_masked}, io.at("loss_masked").values),
                        largest_difference({seen.loss_after3}, io.at("loss_after3").values),
                        largest_difference(seen.train_losses, io.at("train_losses").values)}),
              theirs.at("losses_absolute"),
              "losses");
  double norms = 0;
  for (std::size_t i = 0; i < seen.grad_norms.size(); ++i) {
    norms = std::max(norms, std::abs(seen.grad_norms[i] / io.at("grad_norms").values[i] - 1));
  }
  expect_near(norms, theirs.at("grad_norms_relative"), "gradient norms");
  Values moved;
  Values should_move;
  for (const auto& [name, gradient] : seen.gradients) {
    if (golden.is_noise(name)) {
      continue;
    }
    expect_near(relative_distance(gradient, golden.grads.at(name)),
                theirs.at("gradients_relative_l2").at(their_name(name)),
                "gradient of " + name);
    if (gradient.size() >= 1024) {  // a matrix
      append_difference(moved, seen.after3.at(name), golden.model.at(name));
      append_difference(should_move, golden.after3.at(name), golden.model.at(name));
    }
  }
  expect_near(
      relative_distance(moved, should_move), theirs.at("matrix_updates_relative_l2"), "updates");
}

void expect_same_bits(const Seen& a, const Seen& b) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_BITS_EQ(a.hidden[i], b.hidden[i]) << i;
  }
  EXPECT_BITS_EQ(a.logits, b.logits);
  EXPECT_BITS_EQ(a.loss, b.loss);
  EXPECT_BITS_EQ(a.loss_masked, b.loss_masked);
  EXPECT_BITS_EQ(a.train_losses, b.train_losses);
  EXPECT_BITS_EQ(a.grad_norms, b.grad_norms);
  EXPECT_BITS_EQ(a.loss_after3, b.loss_after3);
  for (const auto& [name, got] : a.gradients) {
    EXPECT_BITS_EQ(got, b.gradients.at(name)) << name;
    EXPECT_BITS_EQ(a.after3.at(name), b.after3.at(name)) << name;
  }
}

RigShape shape_of(Backend backend, DType dtype, int tensor, int data) {
  return {.backend = backend,
          .dtype = dtype,
          .tensor = tensor,
          .data = data,
          .batch = kSamples / data,
          .positions = kPositions};
}

}  // namespace cambium::testing
