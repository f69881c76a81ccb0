// SPDX-License-Identifier: Apache-2.0
#include "comm/world.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "comm/fault.hpp"
#include "comm/launcher.hpp"
#include "comm/mpi_group.hpp"

namespace cambium::comm {
namespace {

#ifdef OPEN_MPI
constexpr MpiFamily kFamily = MpiFamily::open_mpi;
#else
constexpr MpiFamily kFamily = MpiFamily::other;
#endif

const char* name_of_thread_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE:
      return "MPI_THREAD_MULTIPLE";
    default:
      return "an unknown level";
  }
}

std::string host_name() {
  std::array<char, 257> name{};  // Linux names are at most 64 long; never cut inside the buffer
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "unknown host";
  }
  return name.data();
}

int cores_of_affinity_mask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) {
    return 0;  // more cores than the mask type holds: not crowded
  }
  return CPU_COUNT(&mask);
}

// A rank that spins while it waits takes the core from the peer that it waits for. mpirun notices
// by itself, srun and cpusets do not. What the user has set stays.
void yield_when_crowded(const Environment& environment) {
  const auto ranks = local_ranks(environment);
  const int cores = cores_of_affinity_mask();
  if (ranks && cores > 0 && *ranks > cores && !is_bound_by_launcher(environment)) {
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  }
}

bool is_mpi_live() {
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

void start_mpi(int* argc, char*** argv) {
  constexpr int required = MPI_THREAD_FUNNELED;
  int granted = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, required, &granted), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (granted < required) {
    throw Error(Code::comm,
                fmt::format("MPI_Init_thread: thread level, required {}, granted {}; use an MPI "
                            "library built with threads",
                            name_of_thread_level(required),
                            name_of_thread_level(granted)));
  }
}

// The world that is alive, for the handler below: exit() hands nothing over.
std::atomic<const World*> living_world{nullptr};

// exit() in the middle of a run, by a library or a script binding, would look like success while
// the peers wait.
void refuse_quiet_exit() {
  const World* world = living_world.exchange(nullptr);
  if (world != nullptr && is_mpi_live()) {
    raise_fault({},
                Code::bug,
                fmt::format("rank {} ({}): the process called exit() while the run was going on; "
                            "return from main instead",
                            world->rank(),
                            world->host()));
  }
}

std::unique_ptr<Group> group_of(MPI_Comm communicator, const std::string& name) {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator, &size), "MPI_Comm_size of " + name);
  if (size > 1) {
    return std::make_unique<MpiGroup>(communicator, name);
  }
  MPI_Comm_free(&communicator);
  return make_self_group(name);  // no library between a rank and itself
}

std::unique_ptr<Group> duplicate_of_world(const std::string& name) {
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "MPI_Comm_dup for " + name);
  return group_of(communicator, name);
}

// Ranks of one color form a group, ordered by key.
std::unique_ptr<Group> split_world(int color, int key, const std::string& name) {
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, color, key, &communicator),
            "MPI_Comm_split for " + name);
  return group_of(communicator, name);
}

}  // namespace

struct World::Impl {
  bool is_alone = true;
  int rank = 0;
  int size = 1;
  std::string host;
  std::unique_ptr<Group> group;
  int exceptions_at_start = 0;
  bool is_agreed = false;
  std::string warning;
};

World::World(int* argc, char*** argv) : impl_(std::make_unique<Impl>()) {
  impl_->host = host_name();
  impl_->exceptions_at_start = std::uncaught_exceptions();
  const Environment environment = process_environment();
  if (!has_launcher(environment, kFamily)) {
    impl_->group = make_self_group("world");
    return;
  }
  impl_->is_alone = false;
  yield_when_crowded(environment);
  if (const auto mismatch = interface_mismatch(environment, network_interfaces())) {
    throw Error(Code::comm, impl_->host + ": " + *mismatch);
  }
  if (const auto wanted = shared_memory_of(environment)) {
    const auto free = free_bytes_of(wanted->folder);  // before MPI fills it
    const auto warning = free ? shared_memory_warning(*wanted, *free) : std::nullopt;
    impl_->warning = warning.value_or("");
  }
  start_mpi(argc, argv);
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &impl_->rank), "MPI_Comm_rank of the world");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &impl_->size), "MPI_Comm_size of the world");
  impl_->group = duplicate_of_world("world");
  living_world = this;
  static const int is_registered = std::atexit(refuse_quiet_exit);
  (void)is_registered;
}

World::~World() {
  living_world = nullptr;
  if (impl_->is_alone || !is_mpi_live()) {
    return;
  }
  const bool is_unwinding = std::uncaught_exceptions() > impl_->exceptions_at_start;
  if (is_unwinding && !impl_->is_agreed) {
    return;  // the peers wait elsewhere; finalizing would wait for them. main calls raise_fault.
  }
  impl_->group.reset();
  MPI_Finalize();
}

int World::rank() const {
  return impl_->rank;
}

int World::size() const {
  return impl_->size;
}

Group& World::group() {
  return *impl_->group;
}

bool World::is_alone() const {
  return impl_->is_alone;
}

const std::string& World::warning() const {
  return impl_->warning;
}

const std::string& World::host() const {
  return impl_->host;
}

std::unique_ptr<Group> World::duplicate(const std::string& name) {
  return impl_->is_alone ? make_self_group(name) : duplicate_of_world(name);
}

MeshGroups World::make_mesh_groups(const PhysicalMesh& mesh) {
  if (mesh.ranks() != size()) {
    throw Error(Code::usage,
                fmt::format("parallel: tensor {} x pipeline {} x context {} x data {} = {} ranks, "
                            "but {} were started",
                            mesh.tensor,
                            mesh.pipeline,
                            mesh.context,
                            mesh.data,
                            mesh.ranks(),
                            size()));
  }
  if (impl_->is_alone) {
    return {make_self_group("tensor"),
            make_self_group("pipeline"),
            make_self_group("data"),
            make_self_group("stage")};
  }
  const Coordinates c = coordinates_of(mesh, rank());
  const int place_in_stage = c.data * mesh.tensor + c.tensor;
  MeshGroups groups;
  groups.tensor = split_world(c.pipeline * mesh.data + c.data, c.tensor, "tensor");
  groups.pipeline = split_world(place_in_stage, c.pipeline, "pipeline");
  groups.data = split_world(c.pipeline * mesh.tensor + c.tensor, c.data, "data");
  groups.stage = split_world(c.pipeline, place_in_stage, "stage");
  return groups;
}

void World::set_agreed() {
  impl_->is_agreed = true;
}

void raise_fault(const std::filesystem::path& attempt_folder, Code code, const std::string& text) {
  const int exit_code = static_cast<int>(code);
  if (claim_fault(attempt_folder, text) == Claim::lost) {
    wait_for_the_end(exit_code);
  }
  if (is_mpi_live()) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  ::_exit(exit_code);
}

}  // namespace cambium::comm
