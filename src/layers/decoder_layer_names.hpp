// layers/decoder_layer_names.hpp — places of parameters and modules, for the sources of
// DecoderLayer only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/inventory.hpp"
#include "model/spec.hpp"

namespace cambium::layers {

using model::LayerParameter;

constexpr dim_t place(LayerParameter p) {
  return static_cast<dim_t>(p);
}

enum : dim_t {
  kNone = -1,
  kNormA = place(LayerParameter::attention_norm),
  kNormABias = place(LayerParameter::attention_norm_bias),
  kQ = place(LayerParameter::q),
  kQBias = place(LayerParameter::q_bias),
  kK = place(LayerParameter::k),
  kKBias = place(LayerParameter::k_bias),
  kV = place(LayerParameter::v),
  kVBias = place(LayerParameter::v_bias),
  kO = place(LayerParameter::o),
  kOBias = place(LayerParameter::o_bias),
  kNormM = place(LayerParameter::mlp_norm),
  kNormMBias = place(LayerParameter::mlp_norm_bias),
  kGate = place(LayerParameter::gate),
  kUp = place(LayerParameter::up),
  kUpBias = place(LayerParameter::up_bias),
  kDown = place(LayerParameter::down),
  kDownBias = place(LayerParameter::down_bias)
};

inline constexpr int kAttentionNorm = static_cast<int>(model::LayerModule::attention_norm);
inline constexpr int kAttention = static_cast<int>(model::LayerModule::attention);
inline constexpr int kMlpNorm = static_cast<int>(model::LayerModule::mlp_norm);
inline constexpr int kMlp = static_cast<int>(model::LayerModule::mlp);

}  // namespace cambium::layers
