// comm/world.hpp — this process among all: MPI's life, the groups of the mesh, and how a run dies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "comm/group.hpp"
#include "comm/topology.hpp"

namespace cambium::comm {

// The groups of the mesh that this rank belongs to.
struct MeshGroups {
  std::unique_ptr<Group> tensor;    // same pipeline, same data
  std::unique_ptr<Group> pipeline;  // same tensor, same data; rank = stage
  std::unique_ptr<Group> data;      // same tensor, same pipeline
  std::unique_ptr<Group> stage;     // same pipeline: tensor × data
};

// Starts MPI when a launcher started this process, else is a world of one rank without MPI_Init
// cost. Not finalized while unwinding from an error that the other ranks do not know of.
class World {
 public:
  World(int* argc, char*** argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] Group& group();
  // True when no launcher was there.
  [[nodiscard]] bool is_alone() const;
  [[nodiscard]] const std::string& host() const;
  // About this host's transports, for the log; may be empty.
  [[nodiscard]] const std::string& warning() const;

  // A fresh duplicate of the world with its own communicator (e.g. for the checkpoint).
  // Collective over: world.
  [[nodiscard]] std::unique_ptr<Group> duplicate(const std::string& name);

  // Collective over: world. mesh.ranks() must equal size().
  [[nodiscard]] MeshGroups make_mesh_groups(const PhysicalMesh& mesh);

  // All ranks know of the error that is being thrown: finalizing is safe.
  void set_agreed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One rank fails alone, others may be blocked: the first rank to create FAULT in `attempt_folder`
// (may be empty) writes `text` there and to stderr, then MPI_Abort(code); the others wait 10 s,
// then _exit(code). Never returns.
[[noreturn]] void raise_fault(const std::filesystem::path& attempt_folder,
                              Code code,
                              const std::string& text);

}  // namespace cambium::comm
