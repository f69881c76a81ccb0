// kernels/cpu/embedding.cpp — rows copied, gradients added by column blocks.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/targets.hpp"
//
#include "kernels/cpu/parallel.hpp"
#include "kernels/dispatch/embedding.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include <hwy/foreach_target.h>
//
#include "kernels/cpu/math-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace cambium::kernels::cpu::HWY_NAMESPACE {

template <typename T>
void embedding_forward_of(Stream& stream, const EmbeddingForward& a) {
  const Range shard{a.first_row, a.first_row + a.table.rows};
  const std::int32_t* ids = a.ids.as<std::int32_t>();
  split(stream, a.out.rows, a.out.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      if (shard.contains(ids[row])) {
        const float* from = a.table.as<float>() + (ids[row] - shard.begin) * a.table.stride;
        T* to = a.out.as<T>() + row * a.out.stride;
        each_vector(0, a.out.cols, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
          part.store(part.load(from + i), to + i);
        });
      }
    }
  });
}

void embedding_forward(Stream& stream, const EmbeddingForward& a) {
  with_type(a.out.dtype,
            [&](auto type) CAMBIUM_LAMBDA { embedding_forward_of<decltype(type)>(stream, a); });
}

template <typename T>
void embedding_backward_of(Stream& stream, const EmbeddingBackward& a) {
  const Range shard{a.first_row, a.first_row + a.dtable.rows};
  const std::int32_t* ids = a.ids.as<std::int32_t>();
  split_blocks(stream, a.dy.cols, kLanes, a.dy.size(), [&](int, Range columns) HWY_ATTR {
    for (dim_t row = 0; row < a.dy.rows; ++row) {
      if (!shard.contains(ids[row])) {
        continue;
      }
      const T* from = a.dy.as<T>() + row * a.dy.stride;
      float* to = a.dtable.as<float>() + (ids[row] - shard.begin) * a.dtable.stride;
      each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
        part.store(part.load(to + i) + part.load(from + i), to + i);
      });
    }
  });
}

void embedding_backward(Stream& stream, const EmbeddingBackward& a) {
  with_type(a.dy.dtype,
            [&](auto type) CAMBIUM_LAMBDA { embedding_backward_of<decltype(type)>(stream, a); });
}

template <typename T>
void positions_forward_of(Stream& stream, const PositionsForward& a) {
  split(stream, a.x.rows, a.x.size(), [&](int, Range rows) HWY_ATTR {
    for (dim_t row = rows.begin; row < rows.end; ++row) {
      const float* from = a.table.as<float>() + (a.first_row + row) / a.batch * a.table.stride;
      T* to = a.x.as<T>() + row * a.x.stride;
      each_vector(0, a.x.cols, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
        part.store(part.load(to + i) + part.load(from + i), to + i);
      });
    }
  });
}

void positions_forward(Stream& stream, const PositionsForward& a) {
  with_type(a.x.dtype,
            [&](auto type) CAMBIUM_LAMBDA { positions_forward_of<decltype(type)>(stream, a); });
}

template <typename T>
void positions_backward_of(Stream& stream, const PositionsBackward& a) {
  split_blocks(stream, a.dy.cols, kLanes, a.dy.size(), [&](int, Range columns) HWY_ATTR {
    for (dim_t row = 0; row < a.dy.rows; ++row) {
      const T* from = a.dy.as<T>() + row * a.dy.stride;
      float* to = a.dtable.as<float>() + (a.first_row + row) / a.batch * a.dtable.stride;
      each_vector(columns.begin, columns.end, [&](dim_t i, auto part) CAMBIUM_LAMBDA {
        part.store(part.load(to + i) + part.load(from + i), to + i);
      });
    }
  });
}

void positions_backward(Stream& stream, const PositionsBackward& a) {
  with_type(a.dy.dtype,
            [&](auto type) CAMBIUM_LAMBDA { positions_backward_of<decltype(type)>(stream, a); });
}

}  // namespace cambium::kernels::cpu::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace cambium::kernels::cpu {

HWY_EXPORT(embedding_forward);
HWY_EXPORT(embedding_backward);
HWY_EXPORT(positions_forward);
HWY_EXPORT(positions_backward);

void embedding_forward(Stream& stream, const EmbeddingForward& a) {
  HWY_DYNAMIC_DISPATCH(embedding_forward)(stream, a);
}

void embedding_backward(Stream& stream, const EmbeddingBackward& a) {
  HWY_DYNAMIC_DISPATCH(embedding_backward)(stream, a);
}

void positions_forward(Stream& stream, const PositionsForward& a) {
  HWY_DYNAMIC_DISPATCH(positions_forward)(stream, a);
}

void positions_backward(Stream& stream, const PositionsBackward& a) {
  HWY_DYNAMIC_DISPATCH(positions_backward)(stream, a);
}

}  // namespace cambium::kernels::cpu

#endif  // HWY_ONCE
