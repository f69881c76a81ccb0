// growth/operators/insert_gated_residual.hpp — y = x + gate * B silu(A norm(x)) behind any named
// module, gate 0. Claim F3. Forward: the closed block is not added, so every logit keeps its bits.
// First update: the block sends nothing into any kept gradient (dx is dy while closed), and new
// parameters are a clip group of their own. Plasticity: at step 1 the gate's gradient is sum dy *
// r, not zero, since A and B are drawn; A and B learn from step 2, when the gate is open
// (methods.md §1.2 a).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "growth/operation.hpp"

namespace cambium::growth {

class InsertGatedResidual : public Operation {
 public:
  explicit InsertGatedResidual(config::InsertGatedResidual config) : config_(std::move(config)) {}

  [[nodiscard]] std::string name() const override {
    return "insert_gated_residual";
  }

  [[nodiscard]] std::string describe() const override;

  [[nodiscard]] Claim claim() const override {
    return Claim::f3;
  }

  void apply(model::Spec& spec, std::int64_t step) const override;

 private:
  config::InsertGatedResidual config_;
};

}  // namespace cambium::growth
