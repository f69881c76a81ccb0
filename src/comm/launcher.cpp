// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <string_view>

namespace cambium::comm {
namespace {

// Slurm's reserved step ids (batch, interactive, external step) start here.
constexpr std::int64_t kReservedSteps = 0xfffffff0;

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> number_of(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text == nullptr ? std::nullopt : whole_number(text);
}

// Entry `node` of Slurm's "4(x2),3", which means 4, 4, 3.
std::optional<std::int64_t> tasks_of_node(std::string_view list, std::int64_t node) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t open = item.find("(x");
    const auto tasks = whole_number(item.substr(0, open));
    std::optional<std::int64_t> repeats = 1;
    if (open != std::string_view::npos) {
      if (item.back() != ')') {
        return std::nullopt;
      }
      repeats = whole_number(item.substr(open + 2, item.size() - open - 3));
    }
    if (!tasks || !repeats) {
      return std::nullopt;
    }
    if (node < *repeats) {
      return tasks;
    }
    node -= *repeats;
  }
  return std::nullopt;
}

// Tasks of the srun step that this process is one of; none in a batch script, an interactive shell
// or without Slurm.
std::optional<std::int64_t> tasks_of_own_step(const Environment& environment) {
  const auto task = number_of(environment, "SLURM_PROCID");
  if (!task) {
    return std::nullopt;
  }
  const auto step = number_of(environment, "SLURM_STEP_ID");
  const char* kind = environment("ENVIRONMENT");
  const bool is_batch_script = !step && kind != nullptr && std::string_view(kind) == "BATCH";
  if (*task == 0 && (is_batch_script || (step && *step >= kReservedSteps))) {
    return std::nullopt;
  }
  const auto tasks = number_of(environment, "SLURM_STEP_NUM_TASKS");
  return tasks ? tasks : number_of(environment, "SLURM_NTASKS");
}

std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    if (!part.empty()) {
      parts.emplace_back(part);
    }
  }
  return parts;
}

bool holds(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

bool has_launcher(const Environment& environment, MpiFamily family) {
  if (environment("OMPI_COMM_WORLD_SIZE") != nullptr || environment("PMIX_RANK") != nullptr) {
    return true;
  }
  return family == MpiFamily::other && environment("PMI_RANK") != nullptr;
}

std::optional<int> local_ranks(const Environment& environment) {
  auto ranks = number_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (!ranks) {
    const char* list = environment("SLURM_STEP_TASKS_PER_NODE");
    if (list == nullptr) {
      list = environment("SLURM_TASKS_PER_NODE");
    }
    if (list != nullptr) {
      ranks = tasks_of_node(list, number_of(environment, "SLURM_NODEID").value_or(0));
    }
  }
  if (!ranks) {
    ranks = number_of(environment, "SLURM_NTASKS_PER_NODE");
  }
  if (!ranks || *ranks < 1 || *ranks > 1'000'000) {
    return std::nullopt;
  }
  return static_cast<int>(*ranks);
}

bool is_bound_by_launcher(const Environment& environment) {
  const char* open_mpi = environment("OMPI_MCA_orte_bound_at_launch");
  if (open_mpi != nullptr && std::string_view(open_mpi) == "1") {
    return true;
  }
  const char* slurm = environment("SLURM_CPU_BIND_TYPE");
  return slurm != nullptr && *slurm != '\0' && std::string_view(slurm) != "none";
}

std::optional<std::string> launcher_mismatch(const Environment& environment, int world_size) {
  if (world_size != 1 || environment("OMPI_COMM_WORLD_SIZE") != nullptr) {
    return std::nullopt;  // several ranks, or an mpirun -n 1 within a job
  }
  const auto tasks = tasks_of_own_step(environment);
  if (!tasks || *tasks <= 1) {
    return std::nullopt;
  }
  return fmt::format(
      "launcher: srun started {} tasks (SLURM_NTASKS), but MPI sees a world of 1 rank in each, so "
      "all would write the "
      "same files; start with srun --mpi=pmix (srun --mpi=list shows what there is) or with mpirun",
      *tasks);
}

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return names;
  }
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_name != nullptr && !holds(names, i->ifa_name)) {
      names.emplace_back(i->ifa_name);
    }
  }
  ::freeifaddrs(all);
  return names;
}

std::optional<std::string> interface_mismatch(const Environment& environment,
                                              const std::vector<std::string>& present) {
  const char* transports = environment("OMPI_MCA_btl");
  const char* wanted = environment("OMPI_MCA_btl_tcp_if_include");
  if (transports == nullptr || wanted == nullptr || present.empty()) {
    return std::nullopt;
  }
  const std::vector<std::string> ways = parts_of(transports);
  const bool is_tcp_alone =
      holds(ways, "tcp") &&
      std::all_of(ways.begin(), ways.end(), [](auto& w) { return w == "tcp" || w == "self"; });
  const std::vector<std::string> names = parts_of(wanted);
  const bool is_any_there = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    // An address range names interfaces by what they are connected to.
    return name.find('/') != std::string::npos || holds(present, name);
  });
  if (!is_tcp_alone || names.empty() || is_any_there) {
    return std::nullopt;
  }
  return fmt::format(
      "network: OMPI_MCA_btl_tcp_if_include={} names no interface of this host, expected one of "
      "{}; set it to the interface that reaches the other hosts, or unset it",
      wanted,
      fmt::join(present, " "));
}

std::optional<SharedMemory> shared_memory_of(const Environment& environment) {
  // Open MPI 4's defaults.
  constexpr std::int64_t kSegment = std::int64_t{4} << 20;
  constexpr const char* kFolder = "/dev/shm";
  const char* transports = environment("OMPI_MCA_btl");
  const std::vector<std::string> ways = parts_of(transports != nullptr ? transports : "vader");
  const int ranks = local_ranks(environment).value_or(1);
  const bool is_used = environment("OMPI_COMM_WORLD_SIZE") != nullptr && ranks > 1 &&
                       (holds(ways, "vader") || ways.empty() || ways.front().front() == '^');
  if (!is_used || holds(ways, "^vader")) {
    return std::nullopt;
  }
  const char* folder = environment("OMPI_MCA_btl_vader_backing_directory");
  const auto segment = number_of(environment, "OMPI_MCA_btl_vader_segment_size");
  return SharedMemory{.folder = folder != nullptr ? folder : kFolder,
                      .needed_bytes = ranks * segment.value_or(kSegment)};
}

std::optional<std::string> shared_memory_warning(const SharedMemory& wanted,
                                                 std::int64_t free_bytes) {
  if (free_bytes >= wanted.needed_bytes) {
    return std::nullopt;
  }
  return fmt::format(
      "shared memory: {} has {} bytes free, the ranks of this host need {}; messages go another, "
      "slower way; enlarge it (docker run --shm-size) or remove what killed jobs left there",
      wanted.folder,
      free_bytes,
      wanted.needed_bytes);
}

std::optional<std::int64_t> free_bytes_of(const std::string& folder) {
  std::error_code ec;
  const std::filesystem::space_info space = std::filesystem::space(folder, ec);
  return ec ? std::nullopt : std::optional(static_cast<std::int64_t>(space.available));
}

bool is_first_of_host(const Environment& environment) {
  const char* text = environment("OMPI_COMM_WORLD_LOCAL_RANK");
  return text == nullptr || std::string_view(text) == "0";
}

std::vector<std::string> launcher_warnings(const Environment& environment,
                                           int world_rank,
                                           int world_size) {
  std::vector<std::string> lines;
  for (const char* name :
       {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "SLURM_STEP_ID"}) {
    const char* text = environment(name);
    if (text != nullptr && !whole_number(text)) {
      lines.push_back(fmt::format("{}=\"{}\" is not a number; ignored", name, text));
    }
  }
  const auto tasks = tasks_of_own_step(environment);
  if (!tasks || environment("OMPI_COMM_WORLD_LOCAL_SIZE") != nullptr) {
    return lines;  // no srun step of our own, or mpirun's: its tasks are nodes' daemons
  }
  if (*tasks != world_size) {
    lines.push_back(fmt::format(
        "SLURM_NTASKS={} but the MPI world has {} ranks; MPI is believed", *tasks, world_size));
  }
  const auto task = number_of(environment, "SLURM_PROCID");
  if (*tasks == world_size && task && *task != world_rank) {
    lines.push_back(
        fmt::format("SLURM_PROCID={} but the MPI rank is {}; MPI is believed", *task, world_rank));
  }
  return lines;
}

}  // namespace cambium::comm
