// kernels/product.hpp — matrix products whose bits do not depend on rows, columns, tile, threads,
// ISA or backend.
// Source: design.md §1.1. f32, bf16 and (reference only) f64: the dtype of x or dy says which.
// Order:  each output element is one accumulator, k ascending from +0; with Accumulate::yes the
//         chain goes on from the value that stands in the output.
//         f32, f64: acc = fma(a[k], b[k], acc) in that dtype.
//         bf16: an f32 accumulator by pairs, the odd one first,
//         acc = fma(a[2i], b[2i], fma(a[2i+1], b[2i+1], acc)), a last single k paired with zero;
//         denormals count as zero inside the chain, as `vdpbf16ps` has it, not behind it.
// bf16:   x and dy are bf16, the weight's plain value is the f32 master (rounded to nearest even
//         where it is read or packed), its panels are bf16. y and dx are f32 or bf16, dw is f32.
//         Accumulate::yes asks for an f32 output. A bf16 output is rounded once, at the end.
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
// zeros beyond the edge. In bf16 panels the k outermost counts pairs: 2i and 2i+1 of a column stand
// side by side, an odd last one beside a zero.
inline constexpr dim_t kPanelWidth = 48;

// Elements of the packed form of a (columns, k) operand.
[[nodiscard]] constexpr dim_t packed_elements(dim_t columns,
                                              dim_t k,
                                              device::DType dtype = device::DType::f32) {
  const dim_t sums = dtype == device::DType::bf16 ? (k + 1) / 2 * 2 : k;
  return (columns + kPanelWidth - 1) / kPanelWidth * kPanelWidth * sums;
}

// A weight (N, K) as the products read it. `reference` reads `plain`; `cpu` reads the panels.
struct Weight {
  View plain;       // (N, K); f32 for bf16 products
  View forward;     // 1 row of packed_elements(N, K, dtype): panels over N, for y = x W^T
  View transposed;  // 1 row of packed_elements(K, N, dtype): panels over K, for dx = dy W
};

// Fills `forward` and `transposed` (f32 or bf16) from `plain`; an empty panel view is skipped.
// No-op on `reference`.
void pack_weight(Stream& stream, const Weight& w);

struct ProductForward {
  View x;    // (M, K)
  Weight w;  // (N, K)
  View y;    // (M, N); may not alias x
  // (M, N) or empty; may alias y. Added once to the finished chain: y = residual + x W^T. f32 or
  // bf16 in bf16 products.
  View residual = {};
  Accumulate accumulate = Accumulate::no;  // not together with residual or bias
  View bias = {};  // (1, N) or empty; f32 in bf16 products. Added to the chain before the residual
};

// y[m,n] = residual[m,n] + (sum_k x[m,k] W[n,k] + bias[n])
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
