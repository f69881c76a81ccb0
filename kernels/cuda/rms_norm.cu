// kernels/cuda/rms_norm.cu — half a warp a row: its 16 threads are the 16 lanes of the order
// contract.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rms_norm.hpp"

namespace cambium::kernels::cuda {

namespace {

constexpr int kLanes = 16;
constexpr int kThreads = 128;
constexpr int kRowsPerBlock = kThreads / kLanes;

struct Row {
  dim_t index;
  int lane;
};

__device__ Row my_row() {
  return {static_cast<dim_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kLanes,
          static_cast<int>(threadIdx.x % kLanes)};
}

// Neighbours first: ((l0+l1)+(l2+l3))+…; an addition commutes, so every lane ends with the same
// bits.
__device__ float sum_of_lanes(float lane_sum) {
  for (int distance = 1; distance < kLanes; distance *= 2) {
    lane_sum = __fadd_rn(lane_sum, __shfl_xor_sync(0xffffffffU, lane_sum, distance, kLanes));
  }
  return lane_sum;
}

// Rows behind the last are walked as empty ones: a shuffle needs the whole warp.
__global__ void rms_norm_forward_row_per_half_warp_kernel(
    View x, View gain, View y, View inv_rms, float width, float eps) {
  const Row row = my_row();
  const bool is_row = row.index < x.rows;
  const dim_t cols = is_row ? x.cols : 0;
  const float* from = static_cast<const float*>(x.data) + row.index * x.stride;
  float sum = 0.0F;
  for (dim_t d = row.lane; d < cols; d += kLanes) {
    sum = __fmaf_rn(from[d], from[d], sum);
  }
  sum = sum_of_lanes(sum);

  const float scale = __fdiv_rn(1.0F, __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, width), eps)));
  const float* g = static_cast<const float*>(gain.data);
  float* to = static_cast<float*>(y.data) + row.index * y.stride;
  for (dim_t d = row.lane; d < cols; d += kLanes) {
    to[d] = __fmul_rn(__fmul_rn(from[d], scale), g[d]);
  }
  if (is_row && row.lane == 0) {
    static_cast<float*>(inv_rms.data)[row.index] = scale;
  }
}

__global__ void rms_norm_backward_input_row_per_half_warp_kernel(
    View dy, View x, View gain, View inv_rms, View residual, View dx, float width) {
  const Row row = my_row();
  const dim_t cols = row.index < x.rows ? x.cols : 0;
  const float* dy_row = static_cast<const float*>(dy.data) + row.index * dy.stride;
  const float* x_row = static_cast<const float*>(x.data) + row.index * x.stride;
  const float* g = static_cast<const float*>(gain.data);
  float dot = 0.0F;
  for (dim_t d = row.lane; d < cols; d += kLanes) {
    dot = __fmaf_rn(__fmul_rn(dy_row[d], g[d]), x_row[d], dot);
  }
  dot = sum_of_lanes(dot);
  if (cols == 0) {
    return;
  }

  const float scale = static_cast<const float*>(inv_rms.data)[row.index];
  const float cube = __fmul_rn(__fmul_rn(scale, scale), scale);
  const float pull = __fdiv_rn(__fmul_rn(cube, dot), width);
  const float* past = residual.data == nullptr
                          ? nullptr
                          : static_cast<const float*>(residual.data) + row.index * residual.stride;
  float* to = static_cast<float*>(dx.data) + row.index * dx.stride;
  for (dim_t d = row.lane; d < cols; d += kLanes) {
    const float own = __fmaf_rn(-pull, x_row[d], __fmul_rn(scale, __fmul_rn(dy_row[d], g[d])));
    to[d] = past == nullptr ? own : __fadd_rn(past[d], own);
  }
}

// One thread a column: the chain over rows is one sum and is not split.
__global__ void rms_norm_backward_weight_column_per_thread_kernel(View dy,
                                                                  View x,
                                                                  View inv_rms,
                                                                  View dgain) {
  const dim_t d = static_cast<dim_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (d >= x.cols) {
    return;
  }
  const float* dy_column = static_cast<const float*>(dy.data) + d;
  const float* x_column = static_cast<const float*>(x.data) + d;
  const float* scale = static_cast<const float*>(inv_rms.data);
  float* to = static_cast<float*>(dgain.data) + d;
  float sum = *to;
  for (dim_t r = 0; r < x.rows; ++r) {
    sum = __fmaf_rn(dy_column[r * dy.stride], __fmul_rn(x_column[r * x.stride], scale[r]), sum);
  }
  *to = sum;
}

void check_matrix(const View& v, const View& like, const char* what) {
  CAMBIUM_CHECK(v.dtype == device::DType::f32 && v.rows == like.rows && v.cols == like.cols, what);
}

void check_vector(const View& v, dim_t size, const char* what) {
  CAMBIUM_CHECK(v.dtype == device::DType::f32 && v.rows == 1 && v.cols == size, what);
}

}  // namespace

void rms_norm_forward(Stream& stream, const RmsNormForward& a) {
  check_matrix(a.x, a.x, "rms_norm_forward: x");
  check_matrix(a.y, a.x, "rms_norm_forward: y");
  check_vector(a.gain, a.x.cols, "rms_norm_forward: gain");
  check_vector(a.inv_rms, a.x.rows, "rms_norm_forward: inv_rms");
  if (a.x.empty()) {
    return;
  }
  rms_norm_forward_row_per_half_warp_kernel<<<blocks_for(a.x.rows, kRowsPerBlock),
                                              kThreads,
                                              0,
                                              native(stream)>>>(
      a.x, a.gain, a.y, a.inv_rms, static_cast<float>(a.width), static_cast<float>(a.eps));
  check_launch("rms_norm_forward");
}

void rms_norm_backward_input(Stream& stream, const RmsNormBackwardInput& a) {
  check_matrix(a.x, a.x, "rms_norm_backward_input: x");
  check_matrix(a.dy, a.x, "rms_norm_backward_input: dy");
  check_matrix(a.dx, a.x, "rms_norm_backward_input: dx");
  if (!a.residual.empty()) {
    check_matrix(a.residual, a.x, "rms_norm_backward_input: residual");
  }
  check_vector(a.gain, a.x.cols, "rms_norm_backward_input: gain");
  check_vector(a.inv_rms, a.x.rows, "rms_norm_backward_input: inv_rms");
  if (a.x.empty()) {
    return;
  }
  rms_norm_backward_input_row_per_half_warp_kernel<<<blocks_for(a.x.rows, kRowsPerBlock),
                                                     kThreads,
                                                     0,
                                                     native(stream)>>>(
      a.dy, a.x, a.gain, a.inv_rms, a.residual, a.dx, static_cast<float>(a.width));
  check_launch("rms_norm_backward_input");
}

void rms_norm_backward_weight(Stream& stream, const RmsNormBackwardWeight& a) {
  check_matrix(a.x, a.x, "rms_norm_backward_weight: x");
  check_matrix(a.dy, a.x, "rms_norm_backward_weight: dy");
  check_vector(a.inv_rms, a.x.rows, "rms_norm_backward_weight: inv_rms");
  check_vector(a.dgain, a.x.cols, "rms_norm_backward_weight: dgain");
  if (a.x.empty()) {
    return;
  }
  rms_norm_backward_weight_column_per_thread_kernel<<<blocks_for(a.x.cols, kThreads),
                                                      kThreads,
                                                      0,
                                                      native(stream)>>>(
      a.dy, a.x, a.inv_rms, a.dgain);
  check_launch("rms_norm_backward_weight");
}

}  // namespace cambium::kernels::cuda
