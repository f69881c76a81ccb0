// growth/operation.hpp — a growth operator is a function from spec to spec; it never sees a layer
// class or a rank. Parameters that both specs name by uid keep bits, slots and step counts; new
// uids are drawn or zero by their spec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/grow_config.hpp"
#include "model/spec.hpp"

namespace cambium::growth {

// methods.md §1.0. F2: every logit keeps its bits. F3: so does the first update of every kept
// parameter.
enum class Claim { f0, f1, f2, f3 };

[[nodiscard]] const char* name_of(Claim claim);

class Operation {
 public:
  virtual ~Operation() = default;

  // The key in the campaign file.
  [[nodiscard]] virtual std::string name() const = 0;
  // One line for people: "insert_layers: 2 layers behind layer 2".
  [[nodiscard]] virtual std::string describe() const = 0;
  [[nodiscard]] virtual Claim claim() const = 0;
  // Edits `spec`; new entities are born at `step`. Throws Error(usage) naming the key when it does
  // not apply.
  virtual void apply(model::Spec& spec, std::int64_t step) const = 0;
};

// Throws Error(bug) for an operation without an entry.
[[nodiscard]] std::unique_ptr<Operation> make_operation(const config::GrowOperation& config);

// All operations in order, each on the names that the one before left.
[[nodiscard]] model::Spec grow(model::Spec spec,
                               const std::vector<config::GrowOperation>& operations,
                               std::int64_t step);

// Throws Error(bug) when a kept entity changed shape: the algebra of an exact operator was broken.
void check_kept(const model::Spec& before, const model::Spec& after);

}  // namespace cambium::growth
