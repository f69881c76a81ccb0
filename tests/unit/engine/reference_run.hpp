// unit/engine/reference_run.hpp — a network's run of the reference vectors: what it computes, and
// how near that is to what another program computed (tests/golden/README.md says how the vectors
// were made and how close is close).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/rig.hpp"
#include "support/safetensors.hpp"

namespace cambium::testing {

using device::Backend;
using device::DType;
using NamedValues = std::map<std::string, Values>;

// The vectors of one family. Parameters stand under our names, each in our layout.
struct Golden {
  model::Spec spec;
  nlohmann::json meta;
  Tensors io;
  NamedValues model;
  NamedValues grads;
  NamedValues after3;
  nlohmann::json bf16;  // distances of a public bf16 run
  // Gradients that are zero but for rounding: the optimizer makes noise of them.
  std::vector<std::string> noise;

  [[nodiscard]] bool is_noise(const std::string& name) const {
    return std::any_of(noise.begin(), noise.end(), [&](const std::string& end) {
      return name.size() >= end.size() &&
             name.compare(name.size() - end.size(), end.size(), end) == 0;
    });
  }
};

// The folder of tests/golden; `translate` takes the tensors of one file to our names and layout.
template <typename Translate>
[[nodiscard]] Golden read_golden(const std::filesystem::path& folder,
                                 const model::Spec& spec,
                                 const Translate& translate) {
  Golden g;
  g.spec = spec;
  g.meta = nlohmann::json::parse(std::ifstream(folder / "meta.json"));
  g.bf16 = nlohmann::json::parse(std::ifstream(folder / "bf16_distance.json"));
  g.io = read_safetensors(folder / "io.safetensors");
  g.model = translate(read_safetensors(folder / "model.safetensors"));
  g.grads = translate(read_safetensors(folder / "grads.safetensors"));
  g.after3 = translate(read_safetensors(folder / "after3.safetensors"));
  return g;
}

// What one program computes of the golden run; compared with the files, and bit for bit with
// another backend.
struct Seen {
  std::vector<double> hidden[3];  // (B, T, D)
  std::vector<double> logits;     // (B, T, V)
  double loss = 0;
  double loss_masked = 0;
  std::map<std::string, std::vector<double>> gradients;  // by our names
  std::vector<double> train_losses;
  std::vector<double> grad_norms;
  double loss_after3 = 0;
  std::map<std::string, std::vector<double>> after3;
};

inline constexpr dim_t kSamples = 2;
inline constexpr dim_t kPositions = 32;
inline constexpr double kValid = kSamples * (kPositions - 1);

// Sets the parameters; then forward, one backward, and three AdamW steps.
[[nodiscard]] Seen see(const Golden& golden, const RigShape& shape);

[[nodiscard]] double distance(const std::vector<double>& a, const std::vector<double>& b);
[[nodiscard]] double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// Within the tolerances of tests/golden/README.md.
void expect_golden(const Golden& golden, const Seen& seen);
void expect_same_bits(const Seen& a, const Seen& b);

// In bf16: within three times the distance of the public bf16 run (tests/golden/README.md), and
// not so near that it would be fp32. their_name(our name): the public one, which may hold several.
void expect_near_public_bf16(const Golden& golden,
                             const Seen& seen,
                             const std::function<std::string(const std::string&)>& their_name);

// The samples of the vectors over `data` shards, each one micro-batch.
[[nodiscard]] RigShape shape_of(Backend backend, DType dtype, int tensor = 1, int data = 1);

}  // namespace cambium::testing
