// SPDX-License-Identifier: Apache-2.0
#include "layers/norm.hpp"

#include "kernels/layer_norm.hpp"
#include "kernels/rms_norm.hpp"

namespace cambium::layers {
namespace {

View gain_of(const Norm& norm) {
  return norm.bucket->part(norm.gain, 0).weight.plain;
}

void backward_weight(
    TensorContext& context, const Norm& norm, View dy, View x, NormStatistics kept) {
  Bucket& bucket = *norm.bucket;
  for (dim_t i = 0; i < context.shards().size(); ++i) {
    const Range rows = context.slice_in_stream(context.shards().begin + i);
    if (rows.size() == 0) {
      continue;
    }
    const View dgain = bucket.leaf(0, bucket.part(norm.gain, 0), i);
    if (norm.kind == model::NormKind::rms) {
      kernels::rms_norm_backward_weight(context.stream,
                                        {.dy = dy.slice_rows(rows),
                                         .x = x.slice_rows(rows),
                                         .inv_rms = kept.inv.slice_cols(rows),
                                         .dgain = dgain});
    } else {
      kernels::layer_norm_backward_weight(context.stream,
                                          {.dy = dy.slice_rows(rows),
                                           .x = x.slice_rows(rows),
                                           .mean = kept.mean.slice_cols(rows),
                                           .inv_std = kept.inv.slice_cols(rows),
                                           .dgain = dgain,
                                           .dbias = bucket.leaf(0, bucket.part(norm.bias, 0), i)});
    }
  }
}

}  // namespace

void norm_forward(TensorContext& context, const Norm& norm, View x, View y, NormStatistics kept) {
  if (norm.kind == model::NormKind::rms) {
    kernels::rms_norm_forward(context.stream,
                              {.x = x,
                               .gain = gain_of(norm),
                               .y = y,
                               .inv_rms = kept.inv,
                               .width = norm.width,
                               .eps = norm.eps});
  } else {
    kernels::layer_norm_forward(context.stream,
                                {.x = x,
                                 .gain = gain_of(norm),
                                 .bias = norm.bucket->part(norm.bias, 0).weight.plain,
                                 .y = y,
                                 .mean = kept.mean,
                                 .inv_std = kept.inv,
                                 .width = norm.width,
                                 .eps = norm.eps});
  }
}

void norm_backward(TensorContext& context,
                   const Norm& norm,
                   View dy,
                   View x,
                   NormStatistics kept,
                   View residual,
                   View dx) {
  backward_weight(context, norm, dy, x, kept);
  if (norm.kind == model::NormKind::rms) {
    kernels::rms_norm_backward_input(context.stream,
                                     {.dy = dy,
                                      .x = x,
                                      .gain = gain_of(norm),
                                      .inv_rms = kept.inv,
                                      .residual = residual,
                                      .dx = dx,
                                      .width = norm.width});
  } else {
    kernels::layer_norm_backward_input(context.stream,
                                       {.dy = dy,
                                        .x = x,
                                        .gain = gain_of(norm),
                                        .mean = kept.mean,
                                        .inv_std = kept.inv,
                                        .residual = residual,
                                        .dx = dx,
                                        .width = norm.width});
  }
}

}  // namespace cambium::layers
