// base/recompute.hpp — what a train micro-batch keeps for its backward, and what is made again
// right before it. The same kernels on the same inputs: no bit depends on it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cambium {

// none: everything is kept.
// selective: what costs one element-wise pass is made again: norm outputs (with their gather over
//   the tensor group), silu(gate) * up, silu of a block. A norm's output that blocks change is
//   kept.
// full: a layer keeps its output only; the layer behind runs its forward again from it.
enum class Recompute : std::uint8_t { none, selective, full };

}  // namespace cambium
