// growth/registry.cpp — every operator, one line each.
// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/error.hpp"
#include "growth/operation.hpp"
#include "growth/operators/insert_gated_residual.hpp"
#include "growth/operators/insert_layers.hpp"
#include "model/inventory.hpp"

namespace cambium::growth {

const char* name_of(Claim claim) {
  switch (claim) {
    case Claim::f0:
      return "F0";
    case Claim::f1:
      return "F1";
    case Claim::f2:
      return "F2";
    case Claim::f3:
      return "F3";
  }
  return "?";
}

std::unique_ptr<Operation> make_operation(const config::GrowOperation& config) {
  if (const auto* c = std::get_if<config::InsertGatedResidual>(&config))
    return std::make_unique<InsertGatedResidual>(*c);
  if (const auto* c = std::get_if<config::InsertLayers>(&config))
    return std::make_unique<InsertLayers>(*c);
  throw Error(Code::bug, "growth: an operation without an entry in the registry");
}

model::Spec grow(model::Spec spec,
                 const std::vector<config::GrowOperation>& operations,
                 std::int64_t step) {
  const model::Spec before = spec;
  for (const config::GrowOperation& o : operations) {
    make_operation(o)->apply(spec, step);
  }
  check_kept(before, spec);
  return spec;
}

void check_kept(const model::Spec& before, const model::Spec& after) {
  std::map<std::uint64_t, model::ParameterSpec> kept;
  for (const model::Entity& e : inventory(after)) {
    for (const model::ParameterSpec& p : e.parameters) {
      kept[p.uid] = p;
    }
  }
  for (const model::Entity& e : inventory(before)) {
    for (const model::ParameterSpec& p : e.parameters) {
      const auto found = kept.find(p.uid);
      CAMBIUM_CHECK(found != kept.end(), p.name + " is gone");
      CAMBIUM_CHECK(found->second.rows == p.rows && found->second.cols == p.cols,
                    p.name + " changed shape");
    }
  }
}

}  // namespace cambium::growth
