// layers/tensor_context.hpp — what a layer knows of its tensor group: shapes, row slices, and sums
// over logical shards. Rows are position-major: row = position * batch + sample, so a logical
// shard's slice of the sequence is a block of rows. With sequence parallelism a rank's residual
// stream holds its shards' rows only; without it, all rows. Same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "comm/group.hpp"
#include "comm/tree_sum.hpp"
#include "device/buffer.hpp"
#include "device/stream.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/product.hpp"
#include "params/bucket.hpp"

namespace cambium::layers {

using comm::Group;
using device::Arena;
using device::Buffer;
using device::DType;
using device::Stream;
using device::View;
using device::Work;
using device::WorkScope;
using params::Bucket;
using params::Part;

struct TensorShape {
  dim_t batch = 0;      // B: samples of a micro-batch
  dim_t positions = 0;  // T
  dim_t hidden = 0;     // D
  dim_t logical_tensor = 1;
  bool is_sequence_parallel = true;
  DType dtype = DType::f32;  // of the residual stream, of activations and of their gradients
  comm::Reduction reduction = comm::Reduction::exact;

  // Sums that are not finished, and what products only read as a vector (leaves and nodes of the
  // tree, statistics, logits, rope tables): never narrower than fp32.
  [[nodiscard]] DType sums() const {
    return dtype == DType::bf16 ? DType::f32 : dtype;
  }
};

class TensorContext {
 public:
  TensorContext(Stream& stream,
                Group& group,
                const TensorShape& shape,
                Arena& activations,
                Arena& communication);

  Stream& stream;
  Group& group;
  const TensorShape shape;

  // Logical tensor shards of this rank.
  [[nodiscard]] Range shards() const {
    return shards_;
  }

  // All rows of a micro-batch: T * B.
  [[nodiscard]] dim_t rows() const {
    return shape.positions * shape.batch;
  }

  // The rows of this rank's residual stream.
  [[nodiscard]] Range stream_rows() const {
    return stream_rows_;
  }

  // Rows of logical shard s's slice of the sequence, within all rows.
  [[nodiscard]] Range slice_rows(dim_t shard) const;
  // The same within this rank's residual stream; only for its own shards.
  [[nodiscard]] Range slice_in_stream(dim_t shard) const;

  [[nodiscard]] bool is_split() const {
    return stream_rows_.size() != rows();
  }

  // full (T*B, D): the own stream rows stand in place; afterwards all rows do.
  // Collective over: tensor. Bytes: (size-1)/size of the rows.
  void gather(View full);

  // Runs write(i, leaf) for each local shard i, leaf (T*B, D) of the dtype of sums, and leaves the
  // tree sum over all logical shards, own stream rows only, in `out`. `residual` (empty or stream
  // rows, may alias out) and `bias` (empty or a row) are added once at the end; only then is the
  // sum rounded to the dtype of `out`, once. Collective over: tensor.
  template <typename F>
  void sum_over_shards(View out, View residual, F&& write, View bias = {});

  // out[r] = residual[r] + (sum over shards of x_s W_s^T + bias): the row-parallel product. x_s
  // (T*B, K/tp); bias (1, D) or empty, added once, to the finished sum.
  void row_parallel(const std::vector<View>& x,
                    const std::vector<kernels::Weight>& w,
                    View bias,
                    View residual,
                    View out);

  [[nodiscard]] comm::ShardSum& shard_sum() {
    return sum_;
  }

  [[nodiscard]] Buffer& workspace() {
    return workspace_;
  }

 private:
  // The tree over all ranks' nodes, then residual + (sum + bias), then one rounding.
  void finish_sum(View out, View residual, View bias);
  // out = residual + (total + bias), of those that are there.
  void add_once(View total, View bias, View residual, View out);

  Range shards_;
  Range stream_rows_;
  comm::ShardSum sum_;
  std::vector<Buffer> leaves_;
  std::vector<View> leaf_views_;
  std::vector<View> node_views_;
  std::vector<std::size_t> gather_bytes_;
  std::vector<Range> element_ranges_;
  Buffer workspace_;
};

template <typename F>
void TensorContext::sum_over_shards(View out, View residual, F&& write, View bias) {
  // One shard's chain may be walked in `out` itself, unless `out` is narrower than the chain.
  const bool is_direct = shape.logical_tensor == 1 && out.dtype == shape.sums();
  for (dim_t i = 0; i < shards_.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const View leaf = is_direct && residual.data != out.data
                          ? out
                          : leaf_views_[static_cast<std::size_t>(sum_.local.leaf_buffer[at])];
    write(i, leaf);
    if (is_direct && leaf.data == out.data) {
      add_once(out, bias, residual, out);
      return;
    }
    for (const AddStep& step : sum_.local.after[at]) {
      kernels::add_into(stream,
                        leaf_views_[static_cast<std::size_t>(step.to)],
                        leaf_views_[static_cast<std::size_t>(step.from)]);
    }
  }
  finish_sum(out, residual, bias);
}

}  // namespace cambium::layers
