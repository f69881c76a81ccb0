// kernels/cuda/launch.cuh — what every CUDA launcher does: the stream, the grid, the check after a
// launch. Throws: Error(device) with the driver's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <string>

#include "base/error.hpp"
#include "base/types.hpp"
#include "device/stream.hpp"

namespace cambium::kernels::cuda {

// One host thread drives one device::Stream, so the thread's own CUDA stream keeps the order of its
// calls.
inline cudaStream_t native(device::Stream& stream) {
  CAMBIUM_CHECK(stream.backend() == device::Backend::cuda,
                "a CUDA kernel on a stream of another backend");
  return cudaStreamPerThread;
}

// Blocks for `items` at `per_block` each. CUDA allows 2^31 - 1 in x.
inline unsigned blocks_for(dim_t items, dim_t per_block) {
  const dim_t blocks = ceil_div(items, per_block);
  CAMBIUM_CHECK(blocks > 0 && blocks < (dim_t{1} << 31), "a grid of no or too many blocks");
  return static_cast<unsigned>(blocks);
}

inline void check_launch(const char* kernel) {
  if (const cudaError_t e = cudaGetLastError(); e != cudaSuccess) {
    throw Error(Code::device, std::string(kernel) + ": launch: " + cudaGetErrorString(e));
  }
}

}  // namespace cambium::kernels::cuda
