// SPDX-License-Identifier: Apache-2.0
#include "comm/topology.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "base/error.hpp"

namespace cambium::comm {
namespace {

std::string divisors_of(int n) {
  std::string list;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) {
      list += fmt::format("{}{}", list.empty() ? "" : " ", d);
    }
  }
  return list;
}

// Empty when fine; else one line.
std::string problem_of(const char* axis, int logical, int physical) {
  if (logical < 1) {
    return fmt::format("parallel.logical.{}: {} shards, expected at least 1", axis, logical);
  }
  if (physical < 1) {
    return fmt::format("parallel.{}: {} ranks, expected at least 1", axis, physical);
  }
  if (logical % physical != 0) {
    return fmt::format("parallel.{}: {} ranks do not divide the {} logical shards; use one of {}",
                       axis,
                       physical,
                       logical,
                       divisors_of(logical));
  }
  return {};
}

}  // namespace

Coordinates coordinates_of(const PhysicalMesh& mesh, int rank) {
  CAMBIUM_CHECK(mesh.context == 1, "context ranks have no place in the rank order");
  CAMBIUM_CHECK(rank >= 0 && rank < mesh.ranks(),
                "rank " + std::to_string(rank) + " outside the mesh");
  Coordinates c;
  c.tensor = rank % mesh.tensor;
  c.data = rank / mesh.tensor % mesh.data;
  c.pipeline = rank / mesh.tensor / mesh.data;
  return c;
}

int rank_of(const PhysicalMesh& mesh, Coordinates c) {
  CAMBIUM_CHECK(c.tensor >= 0 && c.tensor < mesh.tensor && c.data >= 0 && c.data < mesh.data &&
                    c.pipeline >= 0 && c.pipeline < mesh.pipeline,
                "coordinates outside the mesh");
  return (c.pipeline * mesh.data + c.data) * mesh.tensor + c.tensor;
}

void check_mesh(const LogicalMesh& logical, const PhysicalMesh& physical) {
  std::string problems;
  for (const std::string& problem :
       {problem_of("tensor", logical.tensor, physical.tensor),
        problem_of("context", logical.context, physical.context),
        problem_of("data", logical.data, physical.data),
        problem_of("pipeline", std::max(1, physical.pipeline), physical.pipeline)}) {
    if (!problem.empty()) {
      problems += (problems.empty() ? "" : " / ") + problem;
    }
  }
  if (!problems.empty()) {
    throw Error(Code::usage, problems);
  }
}

}  // namespace cambium::comm
