// config/run_config.hpp — section `run` of a campaign file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/types.hpp"

namespace cambium::config {

// Of activations and their gradients; master weights, weight gradients and optimizer state are fp32
// under bf16 too. fp64 runs on `reference` only.
enum class Precision { fp32, bf16, fp64 };
enum class Profile { portable };
enum class DeviceKind { automatic, cpu, reference, cuda };
enum class Isa { automatic, avx2, avx512 };
enum class Resume { automatic, must, never };

// What happens when loss or gradient norm is not finite: the step is skipped, this many times in a
// row at most.
struct OnNonfinite {
  dim_t skip_limit = 3;

  bool operator==(const OnNonfinite&) const = default;
};

struct RunConfig {
  std::string name;
  std::string directory;  // absent in the file: runs/NAME; relative to the working folder
  std::uint64_t seed = 1234;
  Precision precision = Precision::fp32;
  Profile profile = Profile::portable;
  DeviceKind device = DeviceKind::automatic;
  Isa isa = Isa::automatic;
  dim_t threads = 0;  // of a rank; 0: cores / ranks, at least 1
  Resume resume = Resume::automatic;
  double watchdog_seconds = 600;  // no progress for so long ends the job with code 15
  OnNonfinite on_nonfinite;

  bool operator==(const RunConfig&) const = default;
};

}  // namespace cambium::config
