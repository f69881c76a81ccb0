// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <gmock/gmock.h>

#include "checkpoint/hooks.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Whole> tiny() {
  std::vector<Whole> model;
  model.emplace_back(make_array("/a", ElementType::f32, 2, 3, 1), 0);
  return model;
}

void write_steps(const fs::path& folder,
                 std::initializer_list<dim_t> steps,
                 const Retention& retention) {
  for (const dim_t step : steps) {
    write_model(folder, step, tiny(), 1, retention);
  }
}

TEST(Names, AreReadBackOnlyInTheOneSpelling) {
  EXPECT_EQ(step_name(100), "step-00000100");
  EXPECT_EQ(step_of_name("step-00000100"), 100);
  EXPECT_EQ(step_of_name(step_name(123456789012)), 123456789012);
  EXPECT_EQ(step_of_name("step-00000100.partial", ".partial"), 100);
  for (const char* name : {"step-100",
                           "step-000000100",
                           "step-0000010x",
                           "step-",
                           "xstep-00000100",
                           "step-00000100.partial"}) {
    EXPECT_FALSE(step_of_name(name).has_value()) << name;
  }
}

TEST(Prune, KeepsTheLastTheNthAndThePinned) {
  const TemporaryFolder folder;

  write_steps(
      folder.path(), {1, 2, 3, 4, 5, 6, 7, 8, 9}, {.keep_last = 2, .keep_every = 4, .pinned = {3}});

  EXPECT_THAT(list_steps(folder.path()), ElementsAre(3, 4, 8, 9));
  EXPECT_THAT(list_steps(folder.path(), kRemovedSuffix), IsEmpty());
}

TEST(CheckpointFailures, C10KeepOneLeavesTheNewOne) {
  const TemporaryFolder folder;

  write_steps(folder.path(), {1, 2, 3}, {.keep_last = 1, .keep_every = 0, .pinned = {}});

  EXPECT_THAT(list_steps(folder.path()), ElementsAre(3));
}

TEST(CheckpointFailures, C10ZeroAndNegativeKeepAll) {
  for (const dim_t keep : {0, -1}) {
    const TemporaryFolder folder;

    write_steps(folder.path(), {1, 2, 3}, {.keep_last = keep, .keep_every = 0, .pinned = {}});

    EXPECT_THAT(list_steps(folder.path()), ElementsAre(1, 2, 3));
  }
}

TEST(CheckpointFailures, C10AFailedSaveCostsNothing) {
  const TemporaryFolder folder;
  write_steps(folder.path(), {1}, {.keep_last = 1, .keep_every = 0, .pinned = {}});
  test_hook = [](const char* point) {
    if (std::string(point) == "manifest.before") {
      throw Error(Code::storage, "disk is gone");
    }
  };

  EXPECT_THROW(write_steps(folder.path(), {2}, {.keep_last = 1, .keep_every = 0, .pinned = {}}),
               Error);

  test_hook = nullptr;
  EXPECT_THAT(list_steps(folder.path()), ElementsAre(1));
  EXPECT_THAT(list_steps(folder.path(), kPartialSuffix), IsEmpty());
  EXPECT_EQ(find_latest(folder.path()).checkpoint->step(), 1);
}

TEST(CheckpointFailures, C10ForeignOnesStayAndAreNamed) {
  const TemporaryFolder folder;
  write_steps(folder.path(), {5000}, {});
  fs::create_directories(folder.path() / "step-00000002");  // no manifest: nobody knows what it is
  fs::create_directories(folder.path() / "notes");
  std::ofstream(folder.path() / "step-5") << "a file";
  cambium::testing::run_on_ranks(1, [&](comm::Group& group) {
    const auto model = tiny();
    WriteRequest request = make_request(folder.path(), 3, model, 1, 0);
    request.run = "another run";
    write_checkpoint(group, request);
  });

  const WriteResult result =
      write_model(folder.path(), 5, tiny(), 1, {.keep_last = 1, .keep_every = 0, .pinned = {}});

  EXPECT_THAT(list_steps(folder.path()), ElementsAre(2, 3, 5, 5000));
  EXPECT_TRUE(fs::exists(folder.path() / "notes"));
  EXPECT_TRUE(fs::exists(folder.path() / "step-5"));
  EXPECT_EQ(fs::read_symlink(folder.path() / "latest"), "step-00000005");
  EXPECT_THAT(joined(result.warnings), HasSubstr("step-00005000: of a higher step"));
  EXPECT_THAT(joined(result.warnings), HasSubstr("step-00000003: written by run 'another run'"));
  EXPECT_THAT(joined(result.warnings), HasSubstr("step-00000002/manifest.json"));
}

TEST(CheckpointFailures, C10DamagedOnesDoNotCountAsKept) {
  const TemporaryFolder folder;
  write_steps(folder.path(), {1, 2}, {});
  fs::remove(folder.path() / "step-00000002/model.h5");

  write_model(folder.path(), 3, tiny(), 1, {.keep_last = 2, .keep_every = 0, .pinned = {}});

  EXPECT_THAT(list_steps(folder.path()), ElementsAre(1, 2, 3));
  EXPECT_NO_THROW((void)open_checkpoint(folder.path() / "step-00000001"));
}

TEST(Prune, RemovesLeftoversOfEarlierSteps) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "step-00000002.partial");
  fs::create_directories(folder.path() / "step-00000003.removed");
  fs::create_directories(folder.path() / "step-00000009.partial");

  write_steps(folder.path(), {5}, {});

  EXPECT_THAT(list_steps(folder.path(), kPartialSuffix), ElementsAre(9));
  EXPECT_THAT(list_steps(folder.path(), kRemovedSuffix), IsEmpty());
}

}  // namespace
}  // namespace cambium::checkpoint
