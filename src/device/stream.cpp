// SPDX-License-Identifier: Apache-2.0
#include "device/stream.hpp"

namespace cambium::device {

const char* name_of(Backend backend) {
  switch (backend) {
    case Backend::reference:
      return "reference";
    case Backend::cpu:
      return "cpu";
    case Backend::cuda:
      return "cuda";
  }
  return "?";
}

void* Stream::scratch(int thread, std::size_t bytes) {
  CAMBIUM_CHECK(thread < static_cast<int>(scratch_.size()) && thread >= 0,
                "scratch of a thread outside the pool");
  Buffer& block = scratch_[static_cast<std::size_t>(thread)];
  if (block.bytes() < bytes) {
    block = Buffer(bytes);
  }
  return block.data();
}

}  // namespace cambium::device
