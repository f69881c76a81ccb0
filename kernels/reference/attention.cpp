// kernels/reference/attention.cpp — the oracle of every other backend: one query after the other,
// f32, f64 and bf16. Only the orders of kernels/attention.hpp are kept, not the tiles' loops: key
// tiles matter to the forward softmax alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/attention.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

// One head of (T*batch, heads*E) as (T, E) of its own, widened: row t starts at operator[](t).
// Outputs begin as zeros and are rounded once, when they are stored.
template <typename W>
class Head {
 public:
  Head(const View& v, dim_t batch, dim_t b, dim_t head, dim_t width)
      : v_(v), batch_(batch), b_(b), first_(head * width), width_(width) {
    values_.resize(static_cast<std::size_t>(v.rows / batch * width));
  }

  Head& load() {
    for (dim_t t = 0; t < v_.rows / batch_; ++t) {
      for (dim_t e = 0; e < width_; ++e) {
        (*this)[t][e] = value_at<W>(v_, t * batch_ + b_, first_ + e);
      }
    }
    return *this;
  }

  void store() {
    for (dim_t t = 0; t < v_.rows / batch_; ++t) {
      for (dim_t e = 0; e < width_; ++e) {
        put_at<W>(v_, t * batch_ + b_, first_ + e, (*this)[t][e]);
      }
    }
  }

  CAMBIUM_INLINE W* operator[](dim_t t) {
    return values_.data() + t * width_;
  }

 private:
  View v_;
  dim_t batch_;
  dim_t b_;
  dim_t first_;
  dim_t width_;
  std::vector<W> values_;
};

// (tokens, E) to (E, tokens): the inner loop over keys is then contiguous, and each score still one
// chain over E.
template <typename T>
std::vector<T> transposed(Head<T>& head, dim_t tokens, dim_t width) {
  std::vector<T> turned(static_cast<std::size_t>(tokens * width));
  for (dim_t t = 0; t < tokens; ++t) {
    for (dim_t e = 0; e < width; ++e) {
      turned[static_cast<std::size_t>(e * tokens + t)] = head[t][e];
    }
  }
  return turned;
}

// out[k] = chain over e of query[e] * keys[e][k] for keys first … first + n - 1.
template <typename T>
CAMBIUM_INLINE void chains(const T* query,
                           const std::vector<T>& keys,
                           dim_t tokens,
                           dim_t width,
                           dim_t first,
                           dim_t n,
                           T* out) {
  for (dim_t k = 0; k < n; ++k) {
    out[k] = 0;
  }
  for (dim_t e = 0; e < width; ++e) {
    const T* row = keys.data() + e * tokens + first;
    for (dim_t k = 0; k < n; ++k) {
      out[k] = fma_of(query[e], row[k], out[k]);
    }
  }
}

template <typename T>
CAMBIUM_INLINE void add_scaled(T factor, const T* row, T* sum, dim_t width) {
  for (dim_t e = 0; e < width; ++e) {
    sum[e] = fma_of(factor, row[e], sum[e]);
  }
}

// Running softmax of one query: see the Order comment of kernels/attention.hpp.
template <typename T>
struct Softmax {
  T maximum = -std::numeric_limits<T>::infinity();
  T sum = 0;

  // Turns a tile's scores into weights; returns the factor of what stands in the output so far.
  CAMBIUM_INLINE T take(T* scores, dim_t n) {
    const T before = maximum;
    for (dim_t k = 0; k < n; ++k) {
      maximum = larger(scores[k], maximum);
    }
    LaneSum<T> weights;
    for (dim_t k = 0; k < n; ++k) {
      scores[k] = exp_of(scores[k] - maximum);
      weights.add(k, scores[k]);
    }
    const T rescale = exp_of(before - maximum);
    sum = fma_of(sum, rescale, weights.total());
    return rescale;
  }
};

template <typename T>
struct Forward {
  CAMBIUM_INLINE static void run(const AttentionForward& a) {
    const dim_t tokens = a.q.rows / a.batch;
    const dim_t width = a.head_width;
    const auto scale = static_cast<T>(a.scale);
    std::vector<T> weights(kKeyTile);
    for (dim_t pair = 0; pair < a.batch * a.heads; ++pair) {
      const dim_t b = pair / a.heads;
      const dim_t h = pair % a.heads;
      const dim_t kv = h / (a.heads / a.kv_heads);
      Head<T> q(a.q, a.batch, b, h, width);
      Head<T> keys_of_head(a.k, a.batch, b, kv, width);
      Head<T> v(a.v, a.batch, b, kv, width);
      Head<T> out(a.out, a.batch, b, h, width);
      q.load();
      v.load();
      const std::vector<T> keys = transposed(keys_of_head.load(), tokens, width);
      for (dim_t t = 0; t < tokens; ++t) {
        Softmax<T> softmax;
        for (dim_t first = 0; first <= t; first += kKeyTile) {
          const dim_t n = std::min(kKeyTile, t + 1 - first);
          chains(q[t], keys, tokens, width, first, n, weights.data());
          for (dim_t k = 0; k < n; ++k) {
            weights[static_cast<std::size_t>(k)] *= scale;
          }
          const T rescale = softmax.take(weights.data(), n);
          for (dim_t e = 0; e < width; ++e) {
            out[t][e] *= rescale;
          }
          for (dim_t k = 0; k < n; ++k) {
            add_scaled(weights[static_cast<std::size_t>(k)], v[first + k], out[t], width);
          }
        }
        const T inverse = T{1} / softmax.sum;
        for (dim_t e = 0; e < width; ++e) {
          out[t][e] *= inverse;
        }
        a.lse.as<T>()[pair * a.lse.stride + t] = softmax.maximum + log_of(softmax.sum);
      }
      out.store();
    }
  }
};

// One query head's part of dq, dk and dv, queries ascending.
template <typename T>
struct BackwardHead {
  const AttentionBackward& a;
  const std::vector<T>& keys;
  const std::vector<T>& values;
  Head<T>& k;
  Head<T>& dk;
  Head<T>& dv;
  std::vector<T>& weights;
  std::vector<T>& slopes;

  CAMBIUM_INLINE void run(dim_t b, dim_t h) const {
    const dim_t tokens = a.q.rows / a.batch;
    const dim_t width = a.head_width;
    const auto scale = static_cast<T>(a.scale);
    Head<T> q(a.q, a.batch, b, h, width);
    Head<T> out(a.out, a.batch, b, h, width);
    Head<T> dout(a.dout, a.batch, b, h, width);
    Head<T> dq(a.dq, a.batch, b, h, width);
    q.load();
    out.load();
    dout.load();
    for (dim_t t = 0; t < tokens; ++t) {
      const T lse = a.lse.as<T>()[(b * a.heads + h) * a.lse.stride + t];
      LaneSum<T> delta_lanes;
      for (dim_t e = 0; e < width; ++e) {
        delta_lanes.add_product(e, dout[t][e], out[t][e]);
      }
      const T delta = delta_lanes.total();
      chains(q[t], keys, tokens, width, 0, t + 1, weights.data());
      chains(dout[t], values, tokens, width, 0, t + 1, slopes.data());
      for (std::size_t i = 0; i <= static_cast<std::size_t>(t); ++i) {
        weights[i] = exp_of(weights[i] * scale - lse);
        slopes[i] = (weights[i] * (slopes[i] - delta)) * scale;
      }
      for (dim_t i = 0; i <= t; ++i) {
        const T weight = weights[static_cast<std::size_t>(i)];
        const T slope = slopes[static_cast<std::size_t>(i)];
        add_scaled(weight, dout[t], dv[i], width);
        add_scaled(slope, q[t], dk[i], width);
        add_scaled(slope, k[i], dq[t], width);
      }
    }
    dq.store();
  }
};

template <typename T>
struct Backward {
  CAMBIUM_INLINE static void run(const AttentionBackward& a) {
    const dim_t tokens = a.q.rows / a.batch;
    const dim_t width = a.head_width;
    const dim_t group = a.heads / a.kv_heads;
    std::vector<T> weights(static_cast<std::size_t>(tokens));
    std::vector<T> slopes(static_cast<std::size_t>(tokens));
    for (dim_t pair = 0; pair < a.batch * a.kv_heads; ++pair) {
      const dim_t b = pair / a.kv_heads;
      const dim_t kv = pair % a.kv_heads;
      Head<T> k(a.k, a.batch, b, kv, width);
      Head<T> v(a.v, a.batch, b, kv, width);
      Head<T> dk(a.dk, a.batch, b, kv, width);
      Head<T> dv(a.dv, a.batch, b, kv, width);
      const std::vector<T> keys = transposed(k.load(), tokens, width);
      const std::vector<T> values = transposed(v.load(), tokens, width);
      const BackwardHead<T> head{a, keys, values, k, dk, dv, weights, slopes};
      for (dim_t h = kv * group; h < (kv + 1) * group; ++h) {
        head.run(b, h);
      }
      dk.store();
      dv.store();
    }
  }
};

}  // namespace

void attention_forward(Stream&, const AttentionForward& a) {
  run_wide<Forward>(computed_in(a.q), a);
}

void attention_backward(Stream&, const AttentionBackward& a) {
  run_wide<Backward>(computed_in(a.q), a);
}

}  // namespace cambium::kernels::reference
