// kernels/cpu/attention_tiles-inl.hpp — packed operands of a head and the small products of one
// tile. All products are fma chains of one accumulator; blocking over rows and columns leaves their
// order alone, and causal limits are exact: a chain never touches a key after its query.
// SPDX-License-Identifier: Apache-2.0

// Per-target include guard.
#if defined(CAMBIUM_KERNELS_CPU_ATTENTION_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMBIUM_KERNELS_CPU_ATTENTION_TILES_INL
#undef CAMBIUM_KERNELS_CPU_ATTENTION_TILES_INL
#else
#define CAMBIUM_KERNELS_CPU_ATTENTION_TILES_INL
#endif

#include <algorithm>

#include "kernels/attention.hpp"
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

// Row length of packed (T, E) operands: whole vectors, zeros behind E.
HWY_INLINE dim_t padded_width(dim_t width) {
  return ceil_div(width, kLanes) * kLanes;
}

// One head's columns of (T*batch, heads*E): row t of it is [t].
template <typename T>
struct Rows {
  T* first;
  dim_t step;

  Rows(const View& v, dim_t batch, dim_t b, dim_t head, dim_t width)
      : first(v.as<float>() + b * v.stride + head * width), step(batch * v.stride) {}

  HWY_INLINE T* operator[](dim_t t) const {
    return first + t * step;
  }
};

struct Pair {
  dim_t b;
  dim_t head;
  dim_t kv;
};

// A query tile against the key tile that starts at `first_key`; keys are counted from there.
struct Window {
  Range queries;
  dim_t first_key;

  // Keys that query r of the tile sees.
  [[nodiscard]] HWY_INLINE dim_t keys_of(dim_t r) const {
    return std::clamp<dim_t>(queries.begin + r + 1 - first_key, 0, kKeyTile);
  }

  // The first query of the tile that sees key k.
  [[nodiscard]] HWY_INLINE dim_t first_query_of(dim_t k) const {
    return std::max<dim_t>(0, first_key + k - queries.begin);
  }
};

HWY_INLINE void pack_rows(const Rows<const float>& from, dim_t tokens, dim_t width, float* to) {
  const dim_t padded = padded_width(width);
  for (dim_t t = 0; t < tokens; ++t) {
    const float* row = from[t];
    each_vector(0, width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      store(part.load(row + e), to + t * padded + e);
    });
  }
}

HWY_INLINE void unpack_rows(const float* from, dim_t tokens, dim_t width, const Rows<float>& to) {
  const dim_t padded = padded_width(width);
  for (dim_t t = 0; t < tokens; ++t) {
    float* row = to[t];
    each_vector(0, width, [&](dim_t e, auto part) CAMBIUM_LAMBDA {
      part.store(load(from + t * padded + e), row + e);
    });
  }
}

// Rows t … t+3, elements e … e+3, turned: element e of the four goes to to[0 … 3], e+1 one kKeyTile
// further.
HWY_INLINE void turn_four(const Rows<const float>& from, dim_t t, dim_t e, float* to) {
  const hn::FixedTag<float, 4> tag;
  const hn::FixedTag<double, 2> pairs;
  const auto row0 = hn::LoadU(tag, from[t] + e);
  const auto row1 = hn::LoadU(tag, from[t + 1] + e);
  const auto row2 = hn::LoadU(tag, from[t + 2] + e);
  const auto row3 = hn::LoadU(tag, from[t + 3] + e);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(tag, row0, row1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(tag, row2, row3));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row0, row1));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(tag, row2, row3));
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, low01, low23)), tag, to);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, low01, low23)), tag, to + kKeyTile);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveLower(pairs, high01, high23)), tag, to + 2 * kKeyTile);
  hn::StoreU(hn::BitCast(tag, hn::InterleaveUpper(pairs, high01, high23)), tag, to + 3 * kKeyTile);
}

// Panels of kKeyTile tokens, (E, kKeyTile) each: key t of panel p is column t - p*kKeyTile. Columns
// behind the last token are zero up to a whole vector, and unwritten beyond.
HWY_INLINE void pack_columns(const Rows<const float>& from, dim_t tokens, dim_t width, float* to) {
  for (dim_t first = 0; first < tokens; first += kKeyTile) {
    const dim_t n = std::min(kKeyTile, tokens - first);
    float* panel = to + first * width;
    dim_t k = 0;
    for (; k + 4 <= n; k += 4) {
      dim_t e = 0;
      for (; e + 4 <= width; e += 4) {
        turn_four(from, first + k, e, panel + e * kKeyTile + k);
      }
      for (; e < width; ++e) {
        for (dim_t i = 0; i < 4; ++i) {
          panel[e * kKeyTile + k + i] = from[first + k + i][e];
        }
      }
    }
    for (; k < ceil_div(n, kLanes) * kLanes; ++k) {
      for (dim_t e = 0; e < width; ++e) {
        panel[e * kKeyTile + k] = k < n ? from[first + k][e] : 0.0F;
      }
    }
  }
}

// Element (r, i) of the left operand is first[r * row + i * step].
struct Left {
  const float* first;
  dim_t row;
  dim_t step;
};

enum class Start { at_zero, at_sum };

// kRows x (16 kVectors) chains: sum[r][c] (+)= left(r, i) * right[i * right_step + c], i ascending
// over `steps`.
template <dim_t kRows, dim_t kVectors, Start kStart>
HWY_INLINE void chain_block(const Left& left,
                            const float* right,
                            dim_t right_step,
                            dim_t steps,
                            float* sum,
                            dim_t sum_row) {
  Floats sums[kRows][kVectors];
  for (dim_t r = 0; r < kRows; ++r) {
    for (dim_t v = 0; v < kVectors; ++v) {
      sums[r][v] = kStart == Start::at_zero ? zeros() : load(sum + r * sum_row + v * kLanes);
    }
  }
  const float* from = left.first;
  for (dim_t i = 0; i < steps; ++i) {
    Floats columns[kVectors];
    for (dim_t v = 0; v < kVectors; ++v) {
      columns[v] = load(right + v * kLanes);
    }
    for (dim_t r = 0; r < kRows; ++r) {
      const Floats factor = broadcast(from[r * left.row]);
      for (dim_t v = 0; v < kVectors; ++v) {
        sums[r][v] = fma(factor, columns[v], sums[r][v]);
      }
    }
    right += right_step;
    from += left.step;
  }
  for (dim_t r = 0; r < kRows; ++r) {
    for (dim_t v = 0; v < kVectors; ++v) {
      store(sums[r][v], sum + r * sum_row + v * kLanes);
    }
  }
}

// A block that fits the registers: 4 x 4 of AVX-512's 32, 4 x 1 (of two registers each) of
// AVX2's 16.
inline constexpr dim_t kBlockRows = 4;
inline constexpr dim_t kBlockVectors = kRegisters == 1 ? 4 : 1;

// Calls body(first vector, std::integral_constant count) for blocks of at most kBlockVectors.
template <typename Body>
HWY_INLINE void each_block(dim_t vectors, const Body& body) {
  dim_t v = 0;
  for (; v + kBlockVectors <= vectors; v += kBlockVectors) {
    body(v, std::integral_constant<dim_t, kBlockVectors>());
  }
  if constexpr (kBlockVectors == 4) {
    switch (vectors - v) {
      case 3:
        body(v, std::integral_constant<dim_t, 3>());
        break;
      case 2:
        body(v, std::integral_constant<dim_t, 2>());
        break;
      case 1:
        body(v, std::integral_constant<dim_t, 1>());
        break;
      default:
        break;
    }
  }
}

// scores[r][k] = chain over E of query[r][e] * panel[e][k] for the keys that any query near r sees.
inline HWY_ATTR void tile_scores(const float* queries,
                                 dim_t query_step,
                                 const float* panel,
                                 dim_t width,
                                 const Window& window,
                                 float* scores) {
  const dim_t rows = window.queries.size();
  each_block(ceil_div(window.keys_of(rows - 1), kLanes), [&](dim_t v, auto count) CAMBIUM_LAMBDA {
    const dim_t column = v * kLanes;
    dim_t r = 0;
    for (; r + kBlockRows <= rows; r += kBlockRows) {
      if (window.keys_of(r + kBlockRows - 1) > column) {
        chain_block<kBlockRows, count(), Start::at_zero>({queries + r * query_step, query_step, 1},
                                                         panel + column,
                                                         kKeyTile,
                                                         width,
                                                         scores + r * kKeyTile + column,
                                                         kKeyTile);
      }
    }
    for (; r < rows; ++r) {
      chain_block<1, count(), Start::at_zero>({queries + r * query_step, query_step, 1},
                                              panel + column,
                                              kKeyTile,
                                              width,
                                              scores + r * kKeyTile + column,
                                              kKeyTile);
    }
  });
}

// sums[r][e] += chain over the keys that query r sees of factors[r][k] * rows[k][e].
inline HWY_ATTR void tile_over_keys(
    const float* factors, const float* rows, dim_t padded, const Window& window, float* sums) {
  const dim_t queries = window.queries.size();
  each_block(padded / kLanes, [&](dim_t v, auto count) CAMBIUM_LAMBDA {
    const dim_t column = v * kLanes;
    const auto one = [&](dim_t r, dim_t begin) CAMBIUM_LAMBDA {
      chain_block<1, count(), Start::at_sum>({factors + r * kKeyTile + begin, kKeyTile, 1},
                                             rows + begin * padded + column,
                                             padded,
                                             window.keys_of(r) - begin,
                                             sums + r * padded + column,
                                             padded);
    };
    dim_t r = 0;
    for (; r + kBlockRows <= queries; r += kBlockRows) {
      const dim_t common = window.keys_of(r);
      chain_block<kBlockRows, count(), Start::at_sum>({factors + r * kKeyTile, kKeyTile, 1},
                                                      rows + column,
                                                      padded,
                                                      common,
                                                      sums + r * padded + column,
                                                      padded);
      for (dim_t i = r + 1; i < r + kBlockRows && window.keys_of(i) > common; ++i) {
        one(i, common);
      }
    }
    for (; r < queries; ++r) {
      one(r, 0);
    }
  });
}

// sums[k][e] += chain over the queries that see key k of factors[r][k] * rows[r][e].
inline HWY_ATTR void tile_over_queries(
    const float* factors, const float* rows, dim_t padded, const Window& window, float* sums) {
  const dim_t queries = window.queries.size();
  const dim_t keys = window.keys_of(queries - 1);
  each_block(padded / kLanes, [&](dim_t v, auto count) CAMBIUM_LAMBDA {
    const dim_t column = v * kLanes;
    const auto one = [&](dim_t k, dim_t end) CAMBIUM_LAMBDA {
      const dim_t begin = window.first_query_of(k);
      chain_block<1, count(), Start::at_sum>({factors + begin * kKeyTile + k, 1, kKeyTile},
                                             rows + begin * padded + column,
                                             padded,
                                             end - begin,
                                             sums + k * padded + column,
                                             padded);
    };
    dim_t k = 0;
    for (; k + kBlockRows <= keys; k += kBlockRows) {
      const dim_t common = window.first_query_of(k + kBlockRows - 1);
      for (dim_t i = k; i < k + kBlockRows - 1 && window.first_query_of(i) < common; ++i) {
        one(i, common);
      }
      chain_block<kBlockRows, count(), Start::at_sum>(
          {factors + common * kKeyTile + k, 1, kKeyTile},
          rows + common * padded + column,
          padded,
          queries - common,
          sums + k * padded + column,
          padded);
    }
    for (; k < keys; ++k) {
      one(k, queries);
    }
  });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
