// kernels/reference/embedding.cpp — the oracle of every other backend: scalar.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch/embedding.hpp"

#include "kernels/reference/copies.hpp"

namespace cambium::kernels::reference {
namespace {

template <typename T>
struct Lookup {
  CAMBIUM_INLINE static void run(const EmbeddingForward& a) {
    using W = Wide<T>;
    const Range shard{a.first_row, a.first_row + a.table.rows};
    for (dim_t r = 0; r < a.out.rows; ++r) {
      const dim_t id = a.ids.as<std::int32_t>()[r];
      if (!shard.contains(id)) {
        continue;
      }
      const W* from = a.table.as<W>() + (id - shard.begin) * a.table.stride;
      const Out<T> to(a.out, r);
      for (dim_t d = 0; d < a.out.cols; ++d) {
        to.put(d, from[d]);
      }
    }
  }
};

template <typename T>
struct Scatter {
  CAMBIUM_INLINE static void run(const EmbeddingBackward& a) {
    using W = Wide<T>;
    const Range shard{a.first_row, a.first_row + a.dtable.rows};
    for (dim_t r = 0; r < a.dy.rows; ++r) {
      const dim_t id = a.ids.as<std::int32_t>()[r];
      if (!shard.contains(id)) {
        continue;
      }
      const In<T> from(a.dy, r);
      W* to = a.dtable.as<W>() + (id - shard.begin) * a.dtable.stride;
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        to[d] += from[d];
      }
    }
  }
};

template <typename T>
struct AddPositions {
  CAMBIUM_INLINE static void run(const PositionsForward& a) {
    using W = Wide<T>;
    for (dim_t r = 0; r < a.x.rows; ++r) {
      const W* from = a.table.as<W>() + (a.first_row + r) / a.batch * a.table.stride;
      const In<T> x(a.x, r);
      const Out<T> to(a.x, r);
      for (dim_t d = 0; d < a.x.cols; ++d) {
        to.put(d, x[d] + from[d]);
      }
    }
  }
};

template <typename T>
struct GatherPositions {
  CAMBIUM_INLINE static void run(const PositionsBackward& a) {
    using W = Wide<T>;
    for (dim_t r = 0; r < a.dy.rows; ++r) {
      const In<T> from(a.dy, r);
      W* to = a.dtable.as<W>() + (a.first_row + r) / a.batch * a.dtable.stride;
      for (dim_t d = 0; d < a.dy.cols; ++d) {
        to[d] += from[d];
      }
    }
  }
};

}  // namespace

void embedding_forward(Stream&, const EmbeddingForward& a) {
  run_for<Lookup>(a.out.dtype, a);
}

void embedding_backward(Stream&, const EmbeddingBackward& a) {
  run_for<Scatter>(a.dy.dtype, a);
}

void positions_forward(Stream&, const PositionsForward& a) {
  run_for<AddPositions>(a.x.dtype, a);
}

void positions_backward(Stream&, const PositionsBackward& a) {
  run_for<GatherPositions>(a.dy.dtype, a);
}

}  // namespace cambium::kernels::reference
