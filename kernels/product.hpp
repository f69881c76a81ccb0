// kernels/product.hpp — matrix products whose bits do not depend on rows, columns, tile, threads,
// ISA or backend.
// Source: design.md §1.1. fp32 and (reference only) f64.
// Order:  each output element is one accumulator in the views' dtype, k ascending from +0,
//         acc = fma(a[k], b[k], acc); with Accumulate::yes the chain goes on from the value that
//         stands in the output.
// Cost:   2*M*N*K FLOPs, added to stream.counters().product_flops.
// Throws: Error(bug) when shapes or dtypes disagree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/stream.hpp"
#include "device/view.hpp"

namespace cambium::kernels {

using device::Stream;
using device::View;

enum class Accumulate { no, yes };

// Columns of one packed panel, whatever the ISA: panel p holds columns 48p … 48p+47, k outermost,
// zeros beyond the edge.
inline constexpr dim_t kPanelWidth = 48;

// Elements of the packed form of a (columns, k) operand.
[[nodiscard]] constexpr dim_t packed_elements(dim_t columns, dim_t k) {
  return (columns + kPanelWidth - 1) / kPanelWidth * kPanelWidth * k;
}

// A weight (N, K) as the products read it. `reference` reads `plain`; `cpu` reads the panels.
struct Weight {
  View plain;       // (N, K)
  View forward;     // 1 row of packed_elements(N, K): panels over N, for y = x W^T
  View transposed;  // 1 row of packed_elements(K, N): panels over K, for dx = dy W
};

// Fills `forward` and `transposed` from `plain`; an empty panel view is skipped. No-op on
// `reference`.
void pack_weight(Stream& stream, const Weight& w);

struct ProductForward {
  View x;    // (M, K)
  Weight w;  // (N, K)
  View y;    // (M, N); may not alias x
  // (M, N) or empty; may alias y. Added once to the finished chain: y = residual + x W^T.
  View residual = {};
  Accumulate accumulate = Accumulate::no;  // not together with residual
};

// y[m,n] = sum_k x[m,k] W[n,k]
void product_forward(Stream& stream, const ProductForward& a);

struct ProductBackwardInput {
  View dy;   // (M, N)
  Weight w;  // (N, K)
  View dx;   // (M, K)
  Accumulate accumulate = Accumulate::no;
};

// dx[m,k] = sum_n dy[m,n] W[n,k], n ascending
void product_backward_input(Stream& stream, const ProductBackwardInput& a);

struct ProductBackwardWeight {
  View dy;  // (M, N)
  View x;   // (M, K)
  View dw;  // (N, K)
  Accumulate accumulate = Accumulate::no;
};

// dw[n,k] = sum_m dy[m,n] x[m,k], m ascending
void product_backward_weight(Stream& stream, const ProductBackwardWeight& a);

}  // namespace cambium::kernels
