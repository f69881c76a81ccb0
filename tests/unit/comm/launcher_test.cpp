// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace cambium::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

TEST(Launcher, IsSeenByTheVariablesOfMpirunAndPmix) {
  EXPECT_FALSE(has_launcher(environment_of({}), MpiFamily::open_mpi));
  EXPECT_TRUE(has_launcher(environment_of({{"OMPI_COMM_WORLD_SIZE", "1"}}), MpiFamily::open_mpi));
  EXPECT_TRUE(has_launcher(environment_of({{"PMIX_RANK", "0"}}), MpiFamily::open_mpi));
}

TEST(Launcher, SlurmAloneIsNone) {
  const auto batch_script =
      environment_of({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_FALSE(has_launcher(batch_script, MpiFamily::open_mpi));
}

TEST(Launcher, Pmi2IsNoneForOpenMpi) {
  const auto pmi2 = environment_of({{"PMI_RANK", "0"}});
  EXPECT_FALSE(has_launcher(pmi2, MpiFamily::open_mpi));
  EXPECT_TRUE(has_launcher(pmi2, MpiFamily::other));
}

TEST(LauncherMismatch, M07TasksOfSrunThatAreWorldsOfOneAreRefused) {
  for (const char* rank : {"0", "1", "2", "3"}) {
    const auto environment = environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", rank}});

    const auto problem = launcher_mismatch(environment, 1);

    ASSERT_TRUE(problem.has_value()) << "task " << rank;
    EXPECT_THAT(*problem, HasSubstr("srun started 4 tasks"));
    EXPECT_THAT(*problem, HasSubstr("srun --mpi=pmix"));
    EXPECT_THAT(*problem, ::testing::Not(HasSubstr("\n")));
  }
  const auto step =
      environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}});
  EXPECT_TRUE(launcher_mismatch(step, 1).has_value());
  EXPECT_FALSE(launcher_mismatch(step, 4).has_value());
}

TEST(Network, M10InterfacesThatAreNotThereAreRefusedByName) {
  const std::vector<std::string> present = {"lo", "eth0"};
  const auto problem = [&](const std::string& transports, const std::string& wanted) {
    return interface_mismatch(
        environment_of({{"OMPI_MCA_btl", transports}, {"OMPI_MCA_btl_tcp_if_include", wanted}}),
        present);
  };

  const auto missing = problem("self,tcp", "ib0,docker0");

  ASSERT_TRUE(missing.has_value());
  EXPECT_THAT(*missing, HasSubstr("OMPI_MCA_btl_tcp_if_include=ib0,docker0"));
  EXPECT_THAT(*missing, HasSubstr("expected one of lo eth0"));
  EXPECT_FALSE(problem("self,tcp", "ib0,eth0"));
  EXPECT_FALSE(problem("self,tcp", "10.0.0.0/8"));
  EXPECT_FALSE(problem("self,vader,tcp", "ib0"));  // shared memory may be all that is needed
  EXPECT_FALSE(interface_mismatch(environment_of({{"OMPI_MCA_btl", "self,tcp"}}), present));
  EXPECT_THAT(network_interfaces(), ::testing::Contains("lo"));
}

TEST(SharedMemory, M02WhatAHostNeedsAndWhereIsKnownAndMissedByNumbers) {
  const auto wanted = [](std::map<std::string, std::string> more) {
    more.insert({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
    return shared_memory_of(environment_of(more));
  };
  EXPECT_EQ(wanted({})->folder, "/dev/shm");
  EXPECT_EQ(wanted({})->needed_bytes, 4 * 4194304);
  EXPECT_EQ(wanted({{"OMPI_MCA_btl_vader_backing_directory", "/x"}})->folder, "/x");
  EXPECT_EQ(wanted({{"OMPI_MCA_btl_vader_segment_size", "1000"}})->needed_bytes, 4000);
  EXPECT_TRUE(wanted({{"OMPI_MCA_btl", "self,vader"}}));
  EXPECT_TRUE(wanted({{"OMPI_MCA_btl", "^openib"}}));
  EXPECT_FALSE(wanted({{"OMPI_MCA_btl", "self,tcp"}}));
  EXPECT_FALSE(wanted({{"OMPI_MCA_btl", "^vader"}}));
  EXPECT_FALSE(shared_memory_of(
      environment_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})));
  EXPECT_FALSE(shared_memory_of(environment_of({})));

  const SharedMemory four{.folder = "/dev/shm", .needed_bytes = 16777216};
  EXPECT_FALSE(shared_memory_warning(four, 16777216));
  EXPECT_THAT(shared_memory_warning(four, 1048576).value(),
              ::testing::AllOf(HasSubstr("/dev/shm has 1048576 bytes free"),
                               HasSubstr("need 16777216"),
                               HasSubstr("--shm-size")));
  EXPECT_GT(free_bytes_of("/").value(), 0);
  EXPECT_FALSE(free_bytes_of("/no/such/folder"));
}

TEST(LauncherMismatch, S05ABatchScriptAndAnInteractiveShellAreNoTasks) {
  const auto batch_script =
      environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"ENVIRONMENT", "BATCH"}});
  const auto shell = environment_of(
      {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967290"}});
  const auto allocation = environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}});

  EXPECT_FALSE(launcher_mismatch(batch_script, 1).has_value());
  EXPECT_FALSE(launcher_mismatch(shell, 1).has_value());
  EXPECT_FALSE(launcher_mismatch(allocation, 1).has_value());
}

TEST(LauncherMismatch, S05AStepOrMpirunOfOneRankInABiggerJobIsFine) {
  const auto step = environment_of({{"SLURM_NTASKS", "4"},
                                    {"SLURM_PROCID", "0"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_STEP_NUM_TASKS", "1"}});
  const auto mpirun =
      environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}});

  EXPECT_FALSE(launcher_mismatch(step, 1).has_value());
  EXPECT_FALSE(launcher_mismatch(mpirun, 1).has_value());
}

TEST(LauncherMismatch, S05GarbageNeverCrashes) {
  for (const char* garbage : {"", "abc", "-1", "4x", "99999999999999999999", " 4", "4(x", "(x2)"}) {
    const auto environment = environment_of({{"SLURM_NTASKS", garbage},
                                             {"SLURM_PROCID", garbage},
                                             {"SLURM_STEP_ID", garbage},
                                             {"SLURM_NODEID", garbage},
                                             {"SLURM_TASKS_PER_NODE", garbage},
                                             {"SLURM_NTASKS_PER_NODE", garbage},
                                             {"OMPI_COMM_WORLD_LOCAL_SIZE", garbage}});
    EXPECT_FALSE(launcher_mismatch(environment, 1).has_value()) << garbage;
    EXPECT_FALSE(local_ranks(environment).has_value()) << garbage;
    EXPECT_THAT(launcher_warnings(environment, 0, 1),
                ::testing::Contains(HasSubstr("SLURM_PROCID")))
        << garbage;
  }
}

TEST(LauncherWarnings, S05NameTheVariableAndBothValues) {
  const auto more =
      environment_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}});

  EXPECT_THAT(launcher_warnings(more, 1, 4), IsEmpty());
  EXPECT_THAT(launcher_warnings(more, 1, 2),
              ElementsAre("SLURM_NTASKS=4 but the MPI world has 2 ranks; MPI is believed"));
  EXPECT_THAT(launcher_warnings(more, 3, 4),
              ElementsAre("SLURM_PROCID=1 but the MPI rank is 3; MPI is believed"));
  EXPECT_THAT(launcher_warnings(environment_of({{"SLURM_JOB_ID", "7"}}), 0, 1), IsEmpty());
}

TEST(LocalRanks, ReadSlurmsListForTheOwnNode) {
  const auto on_node = [](const char* node) {
    return local_ranks(
        environment_of({{"SLURM_TASKS_PER_NODE", "4(x2),3"}, {"SLURM_NODEID", node}}));
  };
  EXPECT_EQ(on_node("0"), 4);
  EXPECT_EQ(on_node("1"), 4);
  EXPECT_EQ(on_node("2"), 3);
  EXPECT_EQ(on_node("3"), std::nullopt);
  EXPECT_EQ(local_ranks(environment_of({{"SLURM_NTASKS_PER_NODE", "8"}})), 8);
  EXPECT_EQ(local_ranks(environment_of(
                {{"OMPI_COMM_WORLD_LOCAL_SIZE", "6"}, {"SLURM_NTASKS_PER_NODE", "8"}})),
            6);
  EXPECT_EQ(local_ranks(environment_of({})), std::nullopt);
}

TEST(Binding, IsSeenInOpenMpisAndSlurmsVariables) {
  EXPECT_TRUE(is_bound_by_launcher(environment_of({{"OMPI_MCA_orte_bound_at_launch", "1"}})));
  EXPECT_TRUE(is_bound_by_launcher(environment_of({{"SLURM_CPU_BIND_TYPE", "mask_cpu:"}})));
  EXPECT_FALSE(is_bound_by_launcher(environment_of({{"SLURM_CPU_BIND_TYPE", "none"}})));
  EXPECT_FALSE(is_bound_by_launcher(environment_of({})));
}

}  // namespace
}  // namespace cambium::comm
