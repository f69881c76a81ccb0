// config/families/llama.hpp — Llama: RMSNorm, rotary positions, SwiGLU, no biases.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/family.hpp"

namespace cambium::config::families {

inline constexpr FamilyTraits kLlama{.family = Family::llama,
                                     .name = "llama",
                                     .norm = NormKind::rms,
                                     .positions = Positions::rotary,
                                     .activation = Activation::swiglu,
                                     .biases = Biases::none,
                                     .has_grouped_heads = true,
                                     .has_head_dim = true,
                                     .ffn_multiple = 0,
                                     .is_tied = false};

}  // namespace cambium::config::families
