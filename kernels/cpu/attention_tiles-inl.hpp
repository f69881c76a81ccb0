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

#include "kernels/cpu/attention_pack-inl.hpp"
#include "kernels/cpu/chains-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

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
