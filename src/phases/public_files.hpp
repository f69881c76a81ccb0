// phases/public_files.hpp — a model from and to a folder of Hugging Face: config.json and
// safetensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "comm/group.hpp"

namespace cambium::phases {

// Writes `to`/step-00000000, a checkpoint with the folder's parameters (widened to fp32, which
// keeps every bit), zero slots and no phase: a campaign starts from it with `model: {from: …}`.
// Returns what it did, in words. `self` is a group of one rank. Throws Error(bad_input) naming file
// and tensor or key: no such family, a network that this program does not compute, a tensor that is
// missing, has another shape or belongs nowhere; Error(usage) where `to` has checkpoints already.
std::string import_model(comm::Group& self,
                         const std::filesystem::path& from,
                         const std::filesystem::path& to);

// Writes `to`/config.json and `to`/model.safetensors, F32. Throws Error(usage) for what the
// family's public form cannot say (inserted blocks, a classifier, fp64), or where `to` has those
// files.
std::string export_model(const checkpoint::Checkpoint& from, const std::filesystem::path& to);

}  // namespace cambium::phases
