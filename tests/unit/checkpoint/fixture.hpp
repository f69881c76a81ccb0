// unit/checkpoint/fixture.hpp — a small model of odd shapes and its layouts over any number of
// ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "checkpoint/read.hpp"
#include "checkpoint/write.hpp"
#include "unit/checkpoint/common.hpp"
#include "unit/checkpoint/thread_ranks.hpp"

namespace cambium::checkpoint::testing {

// One array with all its elements; element i is a function of (name, i, salt).
struct Whole {
  Array array;
  std::vector<char> bytes;

  Whole(Array a, std::uint64_t salt) : array(std::move(a)) {
    const std::size_t width = bytes_of(array.type);
    bytes.resize(static_cast<std::size_t>(array.rows * array.cols) * width);
    for (std::size_t i = 0; i < bytes.size() / width; ++i) {
      const std::uint64_t bits = hash_bytes(&i, sizeof i, hash_text(array.name, salt));
      const double value = static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
      const auto narrow = static_cast<float>(value);
      std::memcpy(bytes.data() + i * width,
                  array.type == ElementType::f64 ? static_cast<const void*>(&value) : &narrow,
                  width);
    }
  }
};

inline Array make_array(std::string name, ElementType type, dim_t rows, dim_t cols, dim_t uid) {
  const bool vector = rows == 0 && cols > 0;
  return {std::move(name),
          type,
          vector ? 1 : rows,
          cols,
          vector,
          {{"uid", uid}, {"birth_step", 3 * uid}, {"updates", 100 - uid}}};
}

// Matrices, vectors (rows = 0 above), one row over many ranks (M06), fewer rows than ranks, two
// types, no elements.
inline std::vector<Whole> make_model(std::uint64_t salt = 0) {
  const auto f32 = ElementType::f32;
  std::vector<Whole> model;
  model.emplace_back(make_array("/parameters/embedding.weight", f32, 37, 24, 1), salt);
  model.emplace_back(make_array("/parameters/layers.0.mlp.up.weight", f32, 17, 13, 2), salt);
  model.emplace_back(make_array("/parameters/norm.weight", f32, 0, 17, 3), salt);
  model.emplace_back(make_array("/parameters/one_row", f32, 1, 29, 4), salt);
  model.emplace_back(make_array("/parameters/two_rows", f32, 2, 5, 5), salt);
  model.emplace_back(make_array("/optimizer/exp_avg/embedding.weight", f32, 37, 24, 6), salt);
  model.emplace_back(make_array("/thresholds/tau", ElementType::f64, 0, 3, 7), salt);
  model.emplace_back(make_array("/thresholds/table", ElementType::f64, 5, 4, 8), salt);
  model.emplace_back(Array{"/none", f32, 0, 5, false, nlohmann::json::object()}, salt);
  return model;
}

// The rectangle of `array` that `rank` of `ranks` holds: rows cut, columns cut, or a grid of both,
// by the array's uid.
inline Rectangle part_of(const Array& array, int ranks, int rank) {
  const auto uid = array.attributes.value("uid", dim_t{0});
  const Range rows{0, array.rows};
  if (array.vector || uid % 3 == 1) {
    return {rows, share(array.cols, ranks, rank)};
  }
  const int wide = uid % 3 == 2 && ranks % 2 == 0 ? 2 : 1;
  return {share(array.rows, ranks / wide, rank / wide), share(array.cols, wide, rank % wide)};
}

inline WriteRequest make_request(
    const fs::path& folder, dim_t step, const std::vector<Whole>& model, int ranks, int rank) {
  WriteRequest request;
  request.folder = folder;
  request.step = step;
  request.run = "test";
  request.state = {{"contract", {{"seed", 1234}}}, {"tau", 0.1}, {"free", {{"ranks", ranks}}}};
  for (const Whole& whole : model) {
    request.arrays.push_back(whole.array);
    const Rectangle part = part_of(whole.array, ranks, rank);
    const dim_t first = part.rows.begin * whole.array.cols + part.cols.begin;
    request.slices.push_back(
        {whole.array.name,
         whole.array.type,
         part,
         whole.bytes.data() + static_cast<std::size_t>(first) * bytes_of(whole.array.type),
         whole.array.cols});
  }
  return request;
}

// Written by threads that play `ranks` ranks.
inline WriteResult write_model(const fs::path& folder,
                               dim_t step,
                               const std::vector<Whole>& model,
                               int ranks,
                               const Retention& retention = {}) {
  WriteResult result;
  cambium::testing::run_on_ranks(ranks, [&](comm::Group& group) {
    WriteRequest request = make_request(folder, step, model, ranks, group.rank());
    request.retention = retention;
    WriteResult mine = write_checkpoint(group, request);
    if (group.rank() == 0) {
      result = std::move(mine);
    }
  });
  return result;
}

// Reads the part that `rank` of `ranks` holds into memory with `gap` elements between rows; names
// what is wrong.
inline void expect_part(
    const Checkpoint& checkpoint, const std::vector<Whole>& model, int ranks, int rank, dim_t gap) {
  constexpr char kUntouched = 0x5A;
  std::vector<std::vector<char>> memory;
  std::vector<Target> targets;
  for (const Whole& whole : model) {
    const Rectangle part = part_of(whole.array, ranks, rank);
    const dim_t stride = part.cols.size() + gap;
    memory.emplace_back(
        static_cast<std::size_t>(part.rows.size() * stride) * bytes_of(whole.array.type) + 8,
        kUntouched);
    targets.push_back({whole.array.name, whole.array.type, part, memory.back().data(), stride});
  }
  read_slices(checkpoint, targets, 64);
  for (std::size_t i = 0; i < model.size(); ++i) {
    const Array& array = model[i].array;
    const Rectangle& part = targets[i].part;
    const std::size_t width = bytes_of(array.type);
    std::vector<char> expected(memory[i].size(), kUntouched);
    for (dim_t row = 0; row < part.rows.size() && !part.empty(); ++row) {
      const dim_t from = (part.rows.begin + row) * array.cols + part.cols.begin;
      std::memcpy(expected.data() + static_cast<std::size_t>(row * targets[i].stride) * width,
                  model[i].bytes.data() + static_cast<std::size_t>(from) * width,
                  static_cast<std::size_t>(part.cols.size()) * width);
    }
    EXPECT_TRUE(memory[i] == expected)
        << array.name << ' ' << text_of(part, array.vector) << " of rank " << rank << '/' << ranks;
  }
}

inline void expect_model(const fs::path& path, const std::vector<Whole>& model) {
  expect_part(open_checkpoint(path), model, 1, 0, 0);
}

}  // namespace cambium::checkpoint::testing
