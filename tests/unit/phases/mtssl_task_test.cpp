// unit/phases/mtssl_task_test.cpp — the gradient of the threshold against finite differences, in
// fp64, with the real head: one step on the head from the weighted losses, the labelled loss behind
// it, and how that moves with tau (methods.md §2.3).
// SPDX-License-Identifier: Apache-2.0
#include "phases/mtssl_task.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "support/bits.hpp"
#include "support/rig.hpp"
#include "support/tiny_spec.hpp"

namespace cambium {
namespace {

using phases::MtsslStep;
using phases::MtsslTask;
using phases::Role;
using phases::TextMicroBatch;
using testing::Rig;
using testing::RigShape;
using testing::Values;

constexpr dim_t kClasses = 3;  // cut 1 and 2 by two shards
constexpr double kLambda = 0.7;

model::Spec spec_with_head() {
  model::Spec spec = testing::with_blocks(testing::tiny_spec(), {"norm"});
  model::add_classifier(spec, kClasses, 1);
  return spec;
}

// Micro-batches of each data shard as the phase lays them out: two teachers, meta, labelled, two
// strong ones.
struct Batches {
  explicit Batches(const RigShape& shape) {
    const std::vector<Role> order = {
        Role::teacher, Role::teacher, Role::meta, Role::labelled, Role::strong, Role::strong};
    const RandomStream random(shape.seed, Purpose::probe, 4);
    std::uint64_t at = 0;
    for (dim_t s = 0; s < shape.data; ++s) {
      const std::size_t first = texts.size();
      for (std::size_t r = 0; r < order.size(); ++r) {
        TextMicroBatch m(shape.batch, shape.positions);
        for (std::int32_t& id : m.ids) {
          id = static_cast<std::int32_t>(random.below_at(at++, 13));
        }
        for (std::size_t b = 0; b < m.last.size(); ++b) {
          m.last[b] = static_cast<std::int32_t>(
              random.below_at(at++, static_cast<std::uint64_t>(shape.positions)));
          m.labels[b] = static_cast<std::int32_t>(random.below_at(at++, kClasses));
        }
        if (order[r] == Role::strong) {  // the teacher's text with a byte replaced
          m = texts[first + r - 4];
          m.ids[0] = 12;
        }
        texts.push_back(m);
        roles.push_back(order[r]);
        shards.push_back(s);
        teacher_of.push_back(order[r] == Role::strong ? first + r - 4 : 0);
      }
    }
  }

  // Of all roles, or the meta batch alone.
  std::vector<engine::MicroBatch> list(bool is_meta_only = false) {
    std::vector<engine::MicroBatch> out;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool is_trained = roles[i] == Role::labelled || roles[i] == Role::strong;
      if (!is_meta_only || roles[i] == Role::meta) {
        out.push_back(
            {.mode = is_trained ? layers::Mode::train : layers::Mode::forward_only,
             .task = engine::Task::classify,
             .data_shard = shards[i],
             .ids = device::view_of(texts[i].ids.data(), static_cast<dim_t>(texts[i].ids.size())),
             .last_row = texts[i].last_rows(),
             .role = static_cast<int>(roles[i])});
      }
    }
    return out;
  }

  std::vector<TextMicroBatch> texts;
  std::vector<Role> roles;
  std::vector<dim_t> shards;
  std::vector<std::size_t> teacher_of;
};

// Mean loss of the meta texts at the present parameters.
class MetaLoss : public engine::ClassifyTask {
 public:
  MetaLoss(Rig& rig, Batches& batches) : rig_(rig), batches_(batches) {}

  double operator()() {
    sum_ = 0;
    count_ = 0;
    labels_.clear();
    for (std::size_t i = 0; i < batches_.texts.size(); ++i) {
      if (batches_.roles[i] == Role::meta) {
        labels_.push_back(batches_.texts[i].labels);
      }
    }
    engine::PassHooks hooks;
    hooks.classify = this;
    (void)rig_.run(batches_.list(true), hooks);
    return sum_ / count_;
  }

  void run(std::size_t index,
           const engine::MicroBatch& batch,
           device::View h,
           device::View) override {
    layers::ClassifierHead& head = *rig_.runner.model().classifier;
    (void)head.score(h, batch.last_row);
    for (const double loss : head.losses(labels_[index])) {
      sum_ += loss;
      count_ += 1;
    }
  }

 private:
  Rig& rig_;
  Batches& batches_;
  std::vector<std::vector<std::int32_t>> labels_;
  double sum_ = 0;
  double count_ = 0;
};

class Semi {
 public:
  explicit Semi(const RigShape& shape)
      : rig(spec_with_head(), shape),
        batches(shape),
        task(rig.runner, rig.groups, rig.store.partition(), batches.texts, batches.teacher_of),
        meta_loss(rig, batches) {
    rig.set_updates("", 1);
    texts = static_cast<double>(shape.batch * shape.data);
  }

  // The sums of one pass; its gradients stand in the store.
  std::vector<double> pass(double tau, bool is_learned = true) {
    task.begin({.tau = tau,
                .temperature = 0.3,
                .lambda = kLambda,
                .labelled = texts,
                .meta = texts,
                .unlabelled = 2 * texts,
                .is_learned = is_learned});
    engine::PassHooks hooks;
    hooks.classify = &task;
    (void)rig.run(batches.list(), hooks);
    return rig.runner.sum_over_data(task.finish(), phases::kMtsslWidth);
  }

  // The meta loss behind one gradient step of the head alone.
  double looked_ahead(double tau, double learning_rate) {
    (void)pass(tau);
    const Values head = rig.value("classifier.weight");
    const Values gradient = rig.gradient("classifier.weight");
    Values moved = head;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] -= learning_rate * gradient[i];
    }
    rig.set_value("classifier.weight", moved);
    const double loss = meta_loss();
    rig.set_value("classifier.weight", head);
    return loss;
  }

  Rig rig;
  Batches batches;
  MtsslTask task;
  MetaLoss meta_loss;
  double texts = 0;
};

const std::vector<RigShape> kShapes = {{.tensor = 1, .data = 1}, {.tensor = 2, .data = 3}};

// The head's meta gradient is taken where the step begins, so the formula is the slope for a short
// step: the error of the quotient at rate r is of the order of r, and two rates tell its limit.
TEST(MtsslTask, TheThresholdsGradientAgreesWithFiniteDifferences) {
  for (const RigShape& shape : kShapes) {
    Semi semi(shape);
    for (const double tau : {-0.4, 0.1, 0.5}) {
      const double sum = semi.pass(tau)[phases::kProducts];
      const auto slope = [&](double rate) {  // per unit of the learning rate
        constexpr double h = 1e-3;
        return (semi.looked_ahead(tau + h, rate) - semi.looked_ahead(tau - h, rate)) / (2 * h) /
               rate;
      };
      constexpr double rate = 1e-3;
      const double want = 2 * slope(rate / 2) - slope(rate);
      const double got = phases::threshold_gradient(sum, rate, kLambda, 2 * semi.texts) / rate;
      EXPECT_GT(std::abs(want), 1e-4) << "nothing to compare";
      EXPECT_NEAR(got, want, 1e-4 * std::abs(want)) << "tau " << tau;
      EXPECT_NEAR(got, slope(rate), 1e-2 * std::abs(want)) << "tau " << tau;
    }
  }
}

TEST(MtsslTask, OtherMetaLabelsGiveAnotherGradient) {
  Semi semi(kShapes[1]);
  const double before = semi.pass(0.1)[phases::kProducts];
  for (std::size_t i = 0; i < semi.batches.texts.size(); ++i) {
    if (semi.batches.roles[i] == Role::meta) {
      for (std::int32_t& label : semi.batches.texts[i].labels) {
        label = (label + 1) % static_cast<std::int32_t>(kClasses);
      }
    }
  }
  EXPECT_GT(std::abs(semi.pass(0.1)[phases::kProducts] - before), 0.1 * std::abs(before));
}

TEST(MtsslTask, CountsWhatItSees) {
  for (const RigShape& shape : kShapes) {
    Semi semi(shape);
    const std::vector<double> low = semi.pass(-30);
    EXPECT_EQ(low[phases::kPassed], 2 * semi.texts);  // every text passes
    EXPECT_NEAR(low[phases::kMask], 2 * semi.texts, 1e-9);
    EXPECT_GT(low[phases::kUnlabelledLoss], 0);
    EXPECT_NEAR(low[phases::kLabelledLoss] / semi.texts, std::log(3), 1.5);
    EXPECT_LE(low[phases::kCorrect], semi.texts);
    EXPECT_EQ(semi.pass(0.1, false)[phases::kProducts],
              0);  // a fixed threshold looks at no meta batch
  }
}

TEST(MtsslTask, Bf16StaysNearFp32AndCpuHasTheBitsOfReference) {
  for (RigShape shape : kShapes) {
    const auto sums_of = [&](device::Backend backend, device::DType dtype) {
      shape.backend = backend;
      shape.dtype = dtype;
      return Semi(shape).pass(0.1);
    };
    const std::vector<double> wide = sums_of(device::Backend::cpu, device::DType::f32);
    const std::vector<double> narrow = sums_of(device::Backend::cpu, device::DType::bf16);
    EXPECT_BITS_EQ(sums_of(device::Backend::reference, device::DType::bf16), narrow);
    // The mask is steep: what an activation's rounding moves, it moves further.
    for (const auto& [sum, bound] : {std::pair{phases::kLabelledLoss, 0.01},
                                     {phases::kUnlabelledLoss, 0.1},
                                     {phases::kProducts, 0.1}}) {
      const auto at = static_cast<std::size_t>(sum);
      EXPECT_NE(narrow[at], wide[at]) << sum;
      EXPECT_NEAR(narrow[at], wide[at], bound * std::abs(wide[at])) << sum;
    }
  }
}

// With every mask at 1 the loss is a function of the parameters alone, up to jumps of the
// pseudo-labels.
TEST(MtsslTask, TheStepsGradientIsThatOfItsLoss) {
  for (const RigShape& shape : kShapes) {
    Semi semi(shape);
    const auto loss = [&] {
      const std::vector<double> sums = semi.pass(-30);
      return sums[phases::kLabelledLoss] / semi.texts +
             kLambda * sums[phases::kUnlabelledLoss] / (2 * semi.texts);
    };
    (void)loss();
    std::map<std::string, Values> gradients;
    for (const std::string& name : semi.rig.names()) {
      gradients[name] = semi.rig.gradient(name);
    }
    for (const auto& [name, gradient] : gradients) {
      const Values start = semi.rig.value(name);
      for (const std::size_t i : {std::size_t{0}, gradient.size() / 2, gradient.size() - 1}) {
        constexpr double h = 1e-5;
        Values moved = start;
        moved[i] = start[i] + h;
        semi.rig.set_value(name, moved);
        const double above = loss();
        moved[i] = start[i] - h;
        semi.rig.set_value(name, moved);
        const double below = loss();
        EXPECT_NEAR((above - below) / (2 * h), gradient[i], 1e-8 + 1e-6 * std::abs(gradient[i]))
            << name << "[" << i << "]";
      }
      semi.rig.set_value(name, start);
    }
  }
}

// No pseudo-label passes: the unlabelled loss is (almost) nothing, everything stays finite, and the
// labelled part is untouched.
TEST(MtsslFailures, N02NothingPassesTheThreshold) {
  RigShape shape{
      .backend = device::Backend::cpu, .dtype = device::DType::f32, .tensor = 2, .data = 2};
  Semi semi(shape);
  const double tau = phases::logit(0.999);
  const std::vector<double> sums = semi.pass(tau);
  EXPECT_EQ(sums[phases::kPassed], 0);
  EXPECT_LT(sums[phases::kMask], 1e-3);
  EXPECT_LT(sums[phases::kUnlabelledLoss], 1e-3);
  for (const double v : sums) {
    EXPECT_TRUE(std::isfinite(v));
  }
  phases::Threshold threshold{.tau = tau};
  phases::update_threshold(
      threshold,
      phases::threshold_gradient(sums[phases::kProducts], 1e-3, 1, 2 * semi.texts),
      {.classes = kClasses});
  EXPECT_TRUE(std::isfinite(threshold.tau));
  for (const std::string& name : semi.rig.names()) {
    for (const double g : semi.rig.gradient(name)) {
      ASSERT_TRUE(std::isfinite(g)) << name;
    }
  }
}

}  // namespace
}  // namespace cambium
