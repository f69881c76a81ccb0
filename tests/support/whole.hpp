// tests/support/whole.hpp — parameters, gradients and slots of a store whose rank holds all shards,
// read and written whole, by name, as fp64 (an fp32 value keeps its bits).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "params/param_store.hpp"

namespace cambium::testing {

using Values = std::vector<double>;  // of a whole parameter, row-major

// Element `i` of a view's flat memory, as fp64.
[[nodiscard]] inline double element_of(device::View v, dim_t i) {
  if (v.dtype == device::DType::bf16) {
    return static_cast<double>(to_float(v.as<device::BFloat16>()[i]));
  }
  return v.dtype == device::DType::f64 ? v.as<double>()[i] : static_cast<double>(v.as<float>()[i]);
}

inline void set_element(device::View v, dim_t i, double value) {
  if (v.dtype == device::DType::f64) {
    v.as<double>()[i] = value;
  } else {
    v.as<float>()[i] = static_cast<float>(value);
  }
}

// Rows ascending, whatever the stride.
[[nodiscard]] inline std::vector<double> values_of(device::View v) {
  std::vector<double> out;
  for (dim_t r = 0; r < v.rows; ++r) {
    for (dim_t c = 0; c < v.cols; ++c) {
      out.push_back(element_of(v, r * v.stride + c));
    }
  }
  return out;
}

// The flat memory in which a bucket's elements stand: values, a gradient, a slot.
using Flat = std::function<device::View(params::Bucket&)>;

// visit(memory, place in it, place in the whole parameter) for each element of `name`. Throws
// Error(bug) without it.
inline void for_each_element(
    const params::ParamStore& store,
    const std::string& name,
    const Flat& flat,
    const std::function<void(device::View, dim_t at, dim_t whole)>& visit) {
  bool is_found = false;
  for (const auto& b : store.buckets()) {
    for (const params::Part& p : b->parts()) {
      if (p.spec.name != name || b->shape().is_mirror) {
        continue;
      }
      is_found = true;
      const device::View v = flat(*b);
      dim_t at = p.offset;
      for (dim_t r = p.rows.begin; r < p.rows.end; ++r) {
        for (dim_t c = p.cols.begin; c < p.cols.end; ++c) {
          visit(v, at++, r * p.spec.cols + c);
        }
      }
    }
  }
  CAMBIUM_CHECK(is_found, "no parameter " + name);
}

[[nodiscard]] inline Values read_whole(const params::ParamStore& store,
                                       const std::string& name,
                                       const Flat& flat) {
  std::map<dim_t, double> all;
  for_each_element(store, name, flat, [&](device::View v, dim_t at, dim_t whole) {
    all[whole] = element_of(v, at);
  });
  Values out;
  for (const auto& [at, value] : all) {
    CAMBIUM_CHECK(at == static_cast<dim_t>(out.size()), "a hole in " + name);
    out.push_back(value);
  }
  return out;
}

[[nodiscard]] inline Values value_of(const params::ParamStore& store, const std::string& name) {
  return read_whole(store, name, [](params::Bucket& b) { return b.value(); });
}

// Panels are not rewritten: ParamStore::pack().
inline void set_value(const params::ParamStore& store,
                      const std::string& name,
                      const Values& values) {
  for_each_element(
      store,
      name,
      [](params::Bucket& b) { return b.value(); },
      [&](device::View v, dim_t at, dim_t whole) {
        set_element(v, at, values.at(static_cast<std::size_t>(whole)));
      });
}

[[nodiscard]] inline std::vector<std::string> names_of(const params::ParamStore& store) {
  std::vector<std::string> out;
  for (const model::Entity& e : store.entities()) {
    for (const model::ParameterSpec& p : e.parameters) {
      out.push_back(p.name);
    }
  }
  return out;
}

}  // namespace cambium::testing
