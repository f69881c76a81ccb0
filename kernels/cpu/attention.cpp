// kernels/cpu/attention.cpp — attention in tiles of 64 queries and 128 keys, each product a small
// packed tile product.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/attention.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/attention_tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// Hands out 64-byte aligned pieces of one scratch block: first counted without memory, then cut.
class Pieces {
 public:
  explicit Pieces(float* base) : base_(base) {}

  float* cut(dim_t elements) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += ceil_div(elements, kLanes) * kLanes;
    return piece;
  }

  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(used_) * sizeof(float);
  }

 private:
  float* base_;
  dim_t used_ = 0;
};

// A struct of pieces for heads of `tokens` x `width` in the thread's scratch.
template <typename Scratch>
Scratch scratch_of(Stream& stream, int thread, dim_t tokens, dim_t width) {
  Pieces count(nullptr);
  static_cast<void>(Scratch(count, tokens, width));
  Pieces pieces(static_cast<float*>(stream.scratch(thread, count.bytes())));
  return Scratch(pieces, tokens, width);
}

// Cheap-work equivalents of the causal half, for the decision to wake the pool.
template <typename A>
dim_t cost_of(const A& a) {
  const dim_t tokens = a.q.rows / a.batch;
  return a.batch * a.heads * (tokens * (tokens + 1) / 2) * (a.head_width / 4 + 4);
}

// ---- forward

struct ForwardScratch {
  float* keys;     // panels of kKeyTile keys, (E, kKeyTile) each
  float* values;   // (T, Ep)
  float* queries;  // (kQueryTile, Ep): bf16 queries, widened
  float* weights;  // (kQueryTile, kKeyTile)
  float* sums;     // (kQueryTile, Ep)
  float* maximum;  // (kQueryTile)
  float* rescale;  // (kQueryTile)
  float* total;    // (kQueryTile)

  ForwardScratch(Pieces& pieces, dim_t tokens, dim_t width)
      : keys(pieces.cut(ceil_div(tokens, kKeyTile) * kKeyTile * width)),
        values(pieces.cut(tokens * padded_width(width))),
        queries(pieces.cut(kQueryTile * padded_width(width))),
        weights(pieces.cut(kQueryTile * kKeyTile)),
        sums(pieces.cut(kQueryTile * padded_width(width))),
        maximum(pieces.cut(kQueryTile)),
        rescale(pieces.cut(kQueryTile)),
        total(pieces.cut(kQueryTile)) {}
};

// Scales a query's n scores in place; returns the larger of their maximum and `before`.
HWY_INLINE float scale_scores(float* scores, dim_t n, const Floats& scale, float before) {
  Floats best = broadcast(-std::numeric_limits<float>::infinity());
  each_vector(0, n, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats score =
        load(scores + i) * scale;  // behind n lies scratch, which `keep` leaves out
    store(score, scores + i);
    best = part.keep(larger(score, best), best);
  });
  const float largest = largest_lane(best);
  return largest > before ? largest : before;
}

// Turns a query's n scores into weights; returns their sum.
HWY_INLINE float weigh_scores(float* scores, dim_t n, float maximum) {
  const Floats shift = broadcast(maximum);
  Floats sums = zeros();
  each_vector(0, n, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    const Floats weight = exp_of(load(scores + i) - shift);
    store(weight, scores + i);
    sums = part.keep(sums + weight, sums);
  });
  return tree_total(sums);
}

// The running softmax of a tile's queries: scores become weights, what stands in sums and total is
// rescaled.
HWY_INLINE void take_tile(const Window& window,
                          const Floats& scale,
                          dim_t padded,
                          const ForwardScratch& scratch) {
  const dim_t queries = window.queries.size();
  float* before = scratch.rescale;
  for (dim_t r = 0; r < queries; ++r) {
    before[r] = scratch.maximum[r];
    scratch.maximum[r] =
        scale_scores(scratch.weights + r * kKeyTile, window.keys_of(r), scale, before[r]);
  }
  for (dim_t r = 0; r < queries; r += kLanes) {
    store(exp_of(load(before + r) - load(scratch.maximum + r)), scratch.rescale + r);
  }
  for (dim_t r = 0; r < queries; ++r) {
    const float sum =
        weigh_scores(scratch.weights + r * kKeyTile, window.keys_of(r), scratch.maximum[r]);
    scratch.total[r] = __builtin_fmaf(scratch.total[r], scratch.rescale[r], sum);
    const Floats factor = broadcast(scratch.rescale[r]);
    for (dim_t e = 0; e < padded; e += kLanes) {
      float* at = scratch.sums + r * padded + e;
      store(load(at) * factor, at);
    }
  }
}

// out = sum / total and lse = maximum + log(total).
template <typename T>
HWY_INLINE void finish_queries(const AttentionForward& a,
                               const Pair& pair,
                               Range queries,
                               const ForwardScratch& scratch) {
  const dim_t padded = padded_width(a.head_width);
  float* lse = a.lse.as<float>() + (pair.b * a.heads + pair.head) * a.lse.stride + queries.begin;
  each_vector(0, queries.size(), [&](dim_t i, auto part) CAMBIUM_LAMBDA {
    part.store(load(scratch.maximum + i) + log_of(load(scratch.total + i)), lse + i);
  });
  const Rows<T> out(a.out, a.batch, pair.b, pair.head, a.head_width);
  for (dim_t r = 0; r < queries.size(); ++r) {
    const Floats inverse = broadcast(1.0F / scratch.total[r]);
    const float* sum = scratch.sums + r * padded;
    T* to = out[queries.begin + r];
    each_vector(0, a.head_width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      part.store(load(sum + e) * inverse, to + e);
    });
  }
}

// A query tile's rows as f32: where they stand, or widened.
struct Queries {
  const float* first;
  dim_t step;
};

template <typename T>
HWY_INLINE Queries queries_of(const AttentionForward& a,
                              const Pair& pair,
                              Range queries,
                              const ForwardScratch& scratch) {
  const Rows<const T> q(a.q, a.batch, pair.b, pair.head, a.head_width);
  if constexpr (std::is_same_v<T, float>) {
    return {q[queries.begin], q.step};
  } else {
    pack_rows(
        Rows<const T>{q[queries.begin], q.step}, queries.size(), a.head_width, scratch.queries);
    return {scratch.queries, padded_width(a.head_width)};
  }
}

template <typename T>
inline HWY_ATTR void forward_queries(const AttentionForward& a,
                                     const Pair& pair,
                                     Range queries,
                                     const ForwardScratch& scratch) {
  const dim_t width = a.head_width;
  const dim_t padded = padded_width(width);
  const Queries q = queries_of<T>(a, pair, queries, scratch);
  const Floats scale = broadcast(static_cast<float>(a.scale));
  std::fill_n(scratch.maximum, kQueryTile, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.total, kQueryTile, 0.0F);
  std::fill_n(scratch.sums, queries.size() * padded, 0.0F);
  for (dim_t first = 0; first < queries.end; first += kKeyTile) {
    const Window window{queries, first};
    tile_scores(q.first, q.step, scratch.keys + first * width, width, window, scratch.weights);
    take_tile(window, scale, padded, scratch);
    tile_over_keys(scratch.weights, scratch.values + first * padded, padded, window, scratch.sums);
  }
  finish_queries<T>(a, pair, queries, scratch);
}

// Items are (batch, head, query tile) in this order; a thread packs the keys and values that its
// items read, so that fewer heads than threads need no other way.
template <typename T>
void attention_forward_of(Stream& stream, const AttentionForward& a) {
  const dim_t tokens = a.q.rows / a.batch;
  const dim_t width = a.head_width;
  const dim_t tiles = ceil_div(tokens, kQueryTile);
  const dim_t group = a.heads / a.kv_heads;
  split(stream, a.batch * a.heads * tiles, cost_of(a), [&](int thread, Range items) HWY_ATTR {
    const auto scratch = scratch_of<ForwardScratch>(stream, thread, tokens, width);
    dim_t packed = -1;
    for (dim_t item = items.begin; item < items.end; ++item) {
      const dim_t head = item / tiles;
      const Pair pair{head / a.heads, head % a.heads, head % a.heads / group};
      const dim_t source = pair.b * a.kv_heads + pair.kv;
      if (packed != source) {
        const Rows<const T> k(a.k, a.batch, pair.b, pair.kv, width);
        const Rows<const T> v(a.v, a.batch, pair.b, pair.kv, width);
        pack_columns(k, tokens, width, scratch.keys);
        pack_rows(v, tokens, width, scratch.values);
        packed = source;
      }
      const dim_t first = item % tiles * kQueryTile;
      forward_queries<T>(a, pair, {first, std::min(tokens, first + kQueryTile)}, scratch);
    }
  });
}

void attention_forward(Stream& stream, const AttentionForward& a) {
  with_type(a.q.dtype,
            [&](auto type) CAMBIUM_LAMBDA { attention_forward_of<decltype(type)>(stream, a); });
}

// ---- backward

struct BackwardScratch {
  float* key_columns;    // panels of kKeyTile keys, (E, kKeyTile) each
  float* value_columns;  // the same of values
  float* keys;           // (T, Ep)
  float* queries;        // (T, Ep), of the head at work
  float* dout;           // (T, Ep)
  float* dq;             // (T, Ep)
  float* dk;             // (T, Ep), of the group
  float* dv;             // (T, Ep)
  float* delta;          // (T): sum over E of dout * out
  float* weights;        // (kQueryTile, kKeyTile)
  float* slopes;         // (kQueryTile, kKeyTile): d loss / d chain of a score

  BackwardScratch(Pieces& pieces, dim_t tokens, dim_t width)
      : key_columns(pieces.cut(ceil_div(tokens, kKeyTile) * kKeyTile * width)),
        value_columns(pieces.cut(ceil_div(tokens, kKeyTile) * kKeyTile * width)),
        keys(pieces.cut(tokens * padded_width(width))),
        queries(pieces.cut(tokens * padded_width(width))),
        dout(pieces.cut(tokens * padded_width(width))),
        dq(pieces.cut(tokens * padded_width(width))),
        dk(pieces.cut(tokens * padded_width(width))),
        dv(pieces.cut(tokens * padded_width(width))),
        delta(pieces.cut(tokens)),
        weights(pieces.cut(kQueryTile * kKeyTile)),
        slopes(pieces.cut(kQueryTile * kKeyTile)) {}
};

template <typename T>
HWY_INLINE void pack_head(const AttentionBackward& a,
                          const Pair& pair,
                          const BackwardScratch& scratch) {
  const dim_t tokens = a.q.rows / a.batch;
  const dim_t width = a.head_width;
  pack_rows(Rows<const T>(a.q, a.batch, pair.b, pair.head, width), tokens, width, scratch.queries);
  pack_rows(Rows<const T>(a.dout, a.batch, pair.b, pair.head, width), tokens, width, scratch.dout);
  const Rows<const T> out(a.out, a.batch, pair.b, pair.head, width);
  for (dim_t t = 0; t < tokens; ++t) {
    const T* row = out[t];
    const float* dout = scratch.dout + t * padded_width(width);
    Floats sums = zeros();
    each_vector(0, width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      sums = part.keep(fma(load(dout + e), part.load(row + e), sums), sums);
    });
    scratch.delta[t] = tree_total(sums);
  }
}

// Scores to weights and weight gradients to slopes, in place, for the keys that each query sees.
HWY_INLINE void slope_tile(const Window& window,
                           const float* lse,
                           const Floats& scale,
                           const BackwardScratch& scratch) {
  for (dim_t r = 0; r < window.queries.size(); ++r) {
    const Floats shift = broadcast(lse[window.queries.begin + r]);
    const Floats delta = broadcast(scratch.delta[window.queries.begin + r]);
    float* weights = scratch.weights + r * kKeyTile;
    float* slopes = scratch.slopes + r * kKeyTile;
    for (dim_t k = 0; k < window.keys_of(r); k += kLanes) {
      const Floats weight = exp_of(load(weights + k) * scale - shift);
      store(weight, weights + k);
      store((weight * (load(slopes + k) - delta)) * scale, slopes + k);
    }
  }
}

template <typename T>
inline HWY_ATTR void backward_head(const AttentionBackward& a,
                                   const Pair& pair,
                                   const BackwardScratch& scratch) {
  const dim_t tokens = a.q.rows / a.batch;
  const dim_t width = a.head_width;
  const dim_t padded = padded_width(width);
  const Floats scale = broadcast(static_cast<float>(a.scale));
  const float* lse = a.lse.as<float>() + (pair.b * a.heads + pair.head) * a.lse.stride;
  pack_head<T>(a, pair, scratch);
  std::fill_n(scratch.dq, tokens * padded, 0.0F);
  for (dim_t key = 0; key < tokens; key += kKeyTile) {
    const float* key_panel = scratch.key_columns + key * width;
    const float* value_panel = scratch.value_columns + key * width;
    for (dim_t first = key / kQueryTile * kQueryTile; first < tokens; first += kQueryTile) {
      const Window window{{first, std::min(tokens, first + kQueryTile)}, key};
      const float* queries = scratch.queries + first * padded;
      const float* dout = scratch.dout + first * padded;
      tile_scores(queries, padded, key_panel, width, window, scratch.weights);
      tile_scores(dout, padded, value_panel, width, window, scratch.slopes);
      slope_tile(window, lse, scale, scratch);
      tile_over_queries(scratch.weights, dout, padded, window, scratch.dv + key * padded);
      tile_over_queries(scratch.slopes, queries, padded, window, scratch.dk + key * padded);
      tile_over_keys(
          scratch.slopes, scratch.keys + key * padded, padded, window, scratch.dq + first * padded);
    }
  }
  unpack_rows(scratch.dq, tokens, width, Rows<T>(a.dq, a.batch, pair.b, pair.head, width));
}

template <typename T>
void attention_backward_of(Stream& stream, const AttentionBackward& a) {
  const dim_t tokens = a.q.rows / a.batch;
  const dim_t width = a.head_width;
  const dim_t padded = padded_width(width);
  const dim_t group = a.heads / a.kv_heads;
  split(stream, a.batch * a.kv_heads, cost_of(a), [&](int thread, Range pairs) HWY_ATTR {
    const auto scratch = scratch_of<BackwardScratch>(stream, thread, tokens, width);
    for (dim_t source = pairs.begin; source < pairs.end; ++source) {
      const dim_t b = source / a.kv_heads;
      const dim_t kv = source % a.kv_heads;
      const Rows<const T> k(a.k, a.batch, b, kv, width);
      pack_columns(k, tokens, width, scratch.key_columns);
      pack_rows(k, tokens, width, scratch.keys);
      pack_columns(Rows<const T>(a.v, a.batch, b, kv, width), tokens, width, scratch.value_columns);
      std::fill_n(scratch.dk, tokens * padded, 0.0F);
      std::fill_n(scratch.dv, tokens * padded, 0.0F);
      for (dim_t head = kv * group; head < (kv + 1) * group; ++head) {
        backward_head<T>(a, {b, head, kv}, scratch);
      }
      unpack_rows(scratch.dk, tokens, width, Rows<T>(a.dk, a.batch, b, kv, width));
      unpack_rows(scratch.dv, tokens, width, Rows<T>(a.dv, a.batch, b, kv, width));
    }
  });
}

void attention_backward(Stream& stream, const AttentionBackward& a) {
  with_type(a.q.dtype,
            [&](auto type) CAMBIUM_LAMBDA { attention_backward_of<decltype(type)>(stream, a); });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(attention_forward);
HWY_EXPORT(attention_backward);

void attention_forward(Stream& stream, const AttentionForward& a) {
  HWY_DYNAMIC_DISPATCH(attention_forward)(stream, a);
}

void attention_backward(Stream& stream, const AttentionBackward& a) {
  HWY_DYNAMIC_DISPATCH(attention_backward)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
