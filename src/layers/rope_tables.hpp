// layers/rope_tables.hpp — cosines and sines of the rotary embedding, made once per (theta, head
// width). Angles in fp64: position * theta^(-2i/E), rounded once to the run's dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "device/buffer.hpp"

namespace cambium::layers {

struct RopeTable {
  RopeTable(double theta_in,
            dim_t head_width_in,
            dim_t positions,
            device::DType dtype,
            device::Arena& arena)
      : theta(theta_in), head_width(head_width_in) {
    const dim_t half = head_width / 2;
    const std::size_t bytes = static_cast<std::size_t>(positions * half) * device::bytes_of(dtype);
    memory = arena.allocate(2 * bytes);
    cosine = memory.view(dtype, positions, half);
    sine = memory.view(dtype, positions, half, bytes);
    for (dim_t t = 0; t < positions; ++t) {
      for (dim_t i = 0; i < half; ++i) {
        const double turn =
            std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_width));
        const double angle = static_cast<double>(t) * turn;
        if (dtype == device::DType::f64) {
          cosine.as<double>()[t * half + i] = std::cos(angle);
          sine.as<double>()[t * half + i] = std::sin(angle);
        } else {
          cosine.as<float>()[t * half + i] = static_cast<float>(std::cos(angle));
          sine.as<float>()[t * half + i] = static_cast<float>(std::sin(angle));
        }
      }
    }
  }

  double theta;
  dim_t head_width;
  device::Buffer memory;
  device::View cosine;  // (T, E/2)
  device::View sine;
};

}  // namespace cambium::layers
