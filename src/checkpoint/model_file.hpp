// checkpoint/model_file.hpp — model.h5: every array whole under its name, for h5py and h5dump
// (internal).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "checkpoint/manifest.hpp"

namespace cambium::checkpoint {

// Writes FOLDER/model.h5: one virtual dataset per array over the shards that manifest.files names
// (relative, so that the folder may move), NaN as fill value (a missing source must not read as
// zeros), the arrays' attributes. Then fsync. Throws Error(storage).
[[nodiscard]] FileRecord write_model_file(const std::filesystem::path& folder,
                                          const Manifest& manifest);

}  // namespace cambium::checkpoint
