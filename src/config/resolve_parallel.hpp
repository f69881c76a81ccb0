// config/resolve_parallel.hpp — the meshes of a campaign on a given number of ranks. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/campaign.hpp"

namespace cambium::config {

// Fills every kAuto: the one automatic physical size from the number of ranks, then the logical
// mesh (design.md §1: tensor is the smallest multiple of the tensor ranks that is at least the
// largest power of two <= 4 that divides the key/value heads; data likewise for global_batch_size /
// micro_batch_size over all phases). One rank (no launcher) runs 1 x 1 x 1 x 1 whatever the file's
// physical mesh; the file's logical mesh stays. With `model.from` the head counts are unknown: pass
// through once the checkpoint was read and its sizes filled in. Throws: Error(usage) when ranks
// differ from the product (with the equation), when a physical size does not divide its logical one
// (with the sizes that do), or when batches do not divide over the logical mesh.
[[nodiscard]] ParallelConfig resolve_parallel(const Campaign& campaign, int ranks);

}  // namespace cambium::config
