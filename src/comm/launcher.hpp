// comm/launcher.hpp — what the environment says about who started this process. Pure: the
// environment is a function. MPI's rank and size are the truth; these variables only decide whether
// to start MPI, and what to warn about.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cambium::comm {

// Value of a variable, or nullptr. Garbage values never throw here.
using Environment = std::function<const char*(const char* name)>;

// getenv of this process.
[[nodiscard]] Environment process_environment();

enum class MpiFamily { open_mpi, other };

// True when a launcher that this MPI can talk to started the process. PMI_RANK alone (srun
// --mpi=pmi2) is none for Open MPI, whose MPI_Init would end the process.
[[nodiscard]] bool has_launcher(const Environment& environment, MpiFamily family);

// Ranks on this node, when the launcher says so.
[[nodiscard]] std::optional<int> local_ranks(const Environment& environment);

// True when this process was bound to cores of its own: a small affinity mask then says nothing
// about sharing.
[[nodiscard]] bool is_bound_by_launcher(const Environment& environment);

// srun started several tasks, but each is a world of one rank: the text to refuse with
// (Code::usage).
[[nodiscard]] std::optional<std::string> launcher_mismatch(const Environment& environment,
                                                           int world_size);

// Names of this host's network interfaces, in the system's order.
[[nodiscard]] std::vector<std::string> network_interfaces();

// Open MPI is told to talk over TCP alone and by interfaces of which none is in `present`: the text
// to refuse with (Code::comm), before MPI_Init ends the process without one.
[[nodiscard]] std::optional<std::string> interface_mismatch(
    const Environment& environment, const std::vector<std::string>& present);

// Where the ranks of a host exchange messages through files, and how much must fit there.
struct SharedMemory {
  std::string folder;
  std::int64_t needed_bytes = 0;
};

// None where Open MPI does not use it: one rank on this host, or other transports by OMPI_MCA_btl.
[[nodiscard]] std::optional<SharedMemory> shared_memory_of(const Environment& environment);

// A line for the log when less than that is free: Open MPI then takes a slower transport.
[[nodiscard]] std::optional<std::string> shared_memory_warning(const SharedMemory& wanted,
                                                               std::int64_t free_bytes);

// Free bytes below `folder`; none when it cannot be asked.
[[nodiscard]] std::optional<std::int64_t> free_bytes_of(const std::string& folder);

// The process that speaks for its host about what all processes of a host see alike.
[[nodiscard]] bool is_first_of_host(const Environment& environment);

// One line per Slurm variable that is garbage or contradicts MPI, naming the variable and both
// values. For the log.
[[nodiscard]] std::vector<std::string> launcher_warnings(const Environment& environment,
                                                         int world_rank,
                                                         int world_size);

}  // namespace cambium::comm
