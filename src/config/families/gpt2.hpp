// config/families/gpt2.hpp — GPT-2: LayerNorm, learned positions, GELU in its tanh form, a bias on
// every product but the head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/family.hpp"

namespace cambium::config::families {

inline constexpr FamilyTraits kGpt2{.family = Family::gpt2,
                                    .name = "gpt2",
                                    .norm = NormKind::layer,
                                    .positions = Positions::learned,
                                    .activation = Activation::gelu_tanh,
                                    .biases = Biases::all,
                                    .has_grouped_heads = false,
                                    .has_head_dim = false,
                                    .ffn_multiple = 4,
                                    .is_tied = true};

}  // namespace cambium::config::families
