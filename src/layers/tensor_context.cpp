// SPDX-License-Identifier: Apache-2.0
#include "layers/tensor_context.hpp"

#include "kernels/bias.hpp"

namespace cambium::layers {

TensorContext::TensorContext(
    Stream& s, Group& g, const TensorShape& shape_in, Arena& activations, Arena& communication)
    : stream(s),
      group(g),
      shape(shape_in),
      shards_(share(shape_in.logical_tensor, g.size(), g.rank())),
      sum_(shape_in.logical_tensor, g.size(), g.rank()) {
  const dim_t row_elements = shape.hidden;
  const std::size_t element = device::bytes_of(shape.dtype);
  for (int r = 0; r < g.size(); ++r) {
    const Range held = share(shape.logical_tensor, g.size(), r);
    const Range mine{slice_rows(held.begin).begin, slice_rows(held.end - 1).end};
    const Range stream_rows = shape.is_sequence_parallel ? mine : Range{0, rows()};
    if (r == g.rank()) {
      stream_rows_ = stream_rows;
    }
    gather_bytes_.push_back(static_cast<std::size_t>(mine.size() * row_elements) * element);
    element_ranges_.push_back({mine.begin * row_elements, mine.end * row_elements});
  }
  for (dim_t b = 0; b < sum_.local.buffers; ++b) {
    leaves_.push_back(activations.allocate(shape.sums(), rows() * row_elements));
    leaf_views_.push_back(leaves_.back().view(shape.sums(), rows(), row_elements));
  }
  for (const dim_t b : sum_.local.node_buffer) {
    View v = leaf_views_[static_cast<std::size_t>(b)];
    v.cols = v.rows * v.cols;
    v.rows = 1;
    v.stride = v.cols;
    node_views_.push_back(v);
  }
  if (g.size() > 1) {
    workspace_ = communication.allocate(shape.sums(), rows() * row_elements);
  }
}

Range TensorContext::slice_rows(dim_t shard) const {
  const Range p = share(shape.positions, shape.logical_tensor, shard);
  return {p.begin * shape.batch, p.end * shape.batch};
}

Range TensorContext::slice_in_stream(dim_t shard) const {
  const Range r = slice_rows(shard);
  return {r.begin - stream_rows_.begin, r.end - stream_rows_.begin};
}

void TensorContext::gather(View full) {
  if (!is_split()) {
    return;
  }
  const WorkScope scope(stream.profile(), Work::tensor_exchange);
  group.all_gather(full.slice_rows(stream_rows_).data, gather_bytes_, full.data);
}

void TensorContext::finish_sum(View out, View residual, View bias) {
  const View node = leaf_views_[static_cast<std::size_t>(sum_.local.node_buffer[0])];
  const bool is_summed = group.size() == 1 && node_views_.size() == 1;
  // The sum may not land on the residual before it was read, nor in what is narrower than a sum: it
  // goes through the first node's rows.
  const bool is_apart = is_summed || out.dtype != node.dtype ||
                        (residual.data != nullptr && residual.data == out.data);
  const View total = is_apart ? node.slice_rows(stream_rows_) : out;
  if (!is_summed) {
    const WorkScope scope(stream.profile(), Work::tensor_exchange);
    const View flat{total.data, 1, total.size(), total.size(), total.dtype};
    if (is_split()) {
      comm::tree_reduce_scatter(
          group, stream, sum_, node_views_, element_ranges_, flat, workspace_, shape.reduction);
    } else {
      comm::tree_all_reduce(group, stream, sum_, node_views_, flat, workspace_, shape.reduction);
    }
  }
  add_once(total, bias, residual, out);
}

void TensorContext::add_once(View total, View bias, View residual, View out) {
  if (bias.data != nullptr) {
    kernels::add_bias(stream, {.x = total, .bias = bias, .y = out, .residual = residual});
  } else if (residual.data != nullptr) {
    kernels::add(stream, residual, total, out);
  } else if (total.data != out.data) {
    kernels::copy(stream, total, out);
  }
}

void TensorContext::row_parallel(const std::vector<View>& x,
                                 const std::vector<kernels::Weight>& w,
                                 View bias,
                                 View residual,
                                 View out) {
  if (shape.logical_tensor == 1) {  // one shard: bias and residual are added while the tile is hot
    kernels::product_forward(stream,
                             {.x = x[0], .w = w[0], .y = out, .residual = residual, .bias = bias});
    return;
  }
  sum_over_shards(
      out,
      residual,
      [&](dim_t i, View leaf) {
        const auto at = static_cast<std::size_t>(i);
        kernels::product_forward(stream, {.x = x[at], .w = w[at], .y = leaf, .residual = {}});
      },
      bias);
}

}  // namespace cambium::layers
