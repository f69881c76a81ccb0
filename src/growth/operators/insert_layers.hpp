// growth/operators/insert_layers.hpp — whole decoder layers whose projections into the stream (o,
// down) are zero. Claim F3. Forward: a closed projection is not added, so the layer is the
// identity, bit for bit. First update: nothing flows into kept gradients, and new parameters are a
// clip group of their own. Plasticity: o and down have gradients at step 1 (G attention^T, G
// product^T); the others from step 2 (methods.md §1.2 b). Layer constants (attention scale, norm
// divisor, initial scale) are those of the neighbour; no old layer changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "growth/operation.hpp"

namespace cambium::growth {

class InsertLayers : public Operation {
 public:
  explicit InsertLayers(config::InsertLayers config) : config_(config) {}

  [[nodiscard]] std::string name() const override {
    return "insert_layers";
  }

  [[nodiscard]] std::string describe() const override;

  [[nodiscard]] Claim claim() const override {
    return Claim::f3;
  }

  void apply(model::Spec& spec, std::int64_t step) const override;

 private:
  config::InsertLayers config_;
};

}  // namespace cambium::growth
