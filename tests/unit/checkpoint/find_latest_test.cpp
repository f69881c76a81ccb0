// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <gmock/gmock.h>

#include "base/file.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using cambium::testing::run_on_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Steps 5 and 10, written by two ranks; `latest` at 10.
class FindLatest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_model(folder(), 5, make_model(5), 2);
    write_model(folder(), 10, make_model(10), 2);
  }

  [[nodiscard]] const fs::path& folder() const {
    return folder_.path();
  }

  [[nodiscard]] fs::path step(dim_t n) const {
    return folder() / step_name(n);
  }

  // Three ranks find step 5, all with one warning text; it is returned. The damaged one stays on
  // disk.
  std::string expect_five() {
    std::vector<std::string> warnings(3);
    run_on_ranks(3, [&](comm::Group& group) {
      const Latest latest = find_latest(group, folder());
      ASSERT_TRUE(latest.checkpoint.has_value());
      EXPECT_EQ(latest.checkpoint->step(), 5);
      warnings[static_cast<std::size_t>(group.rank())] = joined(latest.warnings);
    });
    EXPECT_EQ(warnings[1], warnings[0]);
    EXPECT_EQ(warnings[2], warnings[0]);
    EXPECT_THAT(warnings[0], HasSubstr("taking " + step(5).string()));
    expect_model(step(5), make_model(5));
    return warnings[0];
  }

  // The sound checkpoint again, for the next kind of damage.
  void repair() {
    fs::remove_all(step(10));
    write_model(folder(), 10, make_model(10), 2);
  }

 private:
  TemporaryFolder folder_;
};

using FindLatestFailures = FindLatest;

TEST_F(FindLatest, FollowsTheLink) {
  const Latest latest = find_latest(folder());

  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->path, step(10));
  EXPECT_THAT(latest.warnings, IsEmpty());

  fs::remove(folder() / "latest");
  fs::create_symlink("step-00000005", folder() / "latest");  // as an operator would to go back
  EXPECT_EQ(find_latest(folder()).checkpoint->step(), 5);
}

TEST_F(FindLatest, OfAnEmptyOrMissingFolderIsAFreshStart) {
  const TemporaryFolder empty;

  EXPECT_FALSE(find_latest(empty.path()).checkpoint.has_value());
  EXPECT_FALSE(find_latest(empty.path() / "none").checkpoint.has_value());
  EXPECT_THAT(find_latest(empty.path()).warnings, IsEmpty());
}

TEST_F(FindLatest, AfterAFirstWriteThatWasKilledIsFreshWithAWarning) {
  const TemporaryFolder killed;
  fs::create_directories(killed.path() / "step-00000005.partial");

  const Latest latest = find_latest(killed.path());

  EXPECT_FALSE(latest.checkpoint.has_value());
  EXPECT_THAT(joined(latest.warnings),
              HasSubstr("step-00000005.partial: the rest of an unfinished write"));
}

TEST_F(FindLatestFailures, C02ShortenedFilesArePassedOverByName) {
  for (const char* name : {"shard-00001.h5", "model.h5", "manifest.json"}) {
    const fs::path file = step(10) / name;
    const auto size = fs::file_size(file);
    for (const std::uintmax_t left : {size - 100, std::uintmax_t{96}, std::uintmax_t{0}}) {
      fs::resize_file(file, left);
      EXPECT_THAT(expect_five(), HasSubstr(file.string())) << left;
      EXPECT_THAT(error_of(Code::bad_input, [&] { (void)open_checkpoint(step(10)); }),
                  HasSubstr(file.string()));
      repair();
    }
  }
}

TEST_F(FindLatestFailures, C02AFlippedBitIsPassedOverByName) {
  const fs::path file = step(10) / "shard-00000.h5";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 30] = static_cast<char>(bytes[bytes.size() - 30] ^ 4);
  std::ofstream(file, std::ios::binary) << bytes;

  const std::string warning = expect_five();

  EXPECT_THAT(warning,
              AllOf(HasSubstr(file.string()), HasSubstr("checksum"), HasSubstr("expected")));
  const auto problems = verify(open_checkpoint(step(10)));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("shard-00000.h5"));
}

TEST_F(FindLatestFailures, C04MissingPartsAreNamed) {
  for (const char* name : {"shard-00000.h5", "model.h5", "manifest.json"}) {
    fs::remove(step(10) / name);
    EXPECT_THAT(expect_five(), HasSubstr((step(10) / name).string()));
    EXPECT_TRUE(fs::exists(step(10)));
    repair();
  }
}

TEST_F(FindLatestFailures, C04StepNumbersThatDisagreeAreNamed) {
  fs::remove_all(step(10));
  fs::copy(step(5), step(10));

  EXPECT_THAT(expect_five(), HasSubstr("the folder's name says step 10, its manifest step 5"));
}

TEST_F(FindLatestFailures, C05TheLinkAndItsTargetAreNamed) {
  const fs::path link = folder() / "latest";
  const auto expect_ten = [&](const char* what) {
    const Latest latest = find_latest(folder());
    ASSERT_TRUE(latest.checkpoint.has_value());
    EXPECT_EQ(latest.checkpoint->step(), 10);
    EXPECT_THAT(joined(latest.warnings),
                AllOf(HasSubstr(link.string()), HasSubstr(what), HasSubstr("taking")));
  };
  fs::remove(link);
  expect_ten("missing");
  for (const char* target : {"step-00000999", "latest", "../elsewhere", "step-5"}) {
    fs::remove(link);
    fs::create_symlink(target, link);
    expect_ten(target);
  }
  fs::remove(link);
  std::ofstream(link) << "step-00000005 \n";
  expect_ten("not a symbolic link");

  // The next save puts the link right, whatever stood there.
  write_model(folder(), 15, make_model(15), 1);
  EXPECT_EQ(fs::read_symlink(link), "step-00000015");
  EXPECT_THAT(find_latest(folder()).warnings, IsEmpty());
}

TEST_F(FindLatestFailures, C05NeverSilentlyAFreshStart) {
  fs::remove_all(step(5));
  fs::remove_all(step(10));

  const std::string text = error_of(Code::bad_input, [&] { (void)find_latest(folder()); });

  EXPECT_THAT(
      text, AllOf(HasSubstr("no whole checkpoint"), HasSubstr("step-00000010: there is no such")));
}

TEST_F(FindLatestFailures, C04AllDamagedIsAnErrorOnEveryRank) {
  fs::remove(step(5) / "manifest.json");
  fs::remove(step(10) / "shard-00001.h5");

  run_on_ranks(2, [&](comm::Group& group) {
    const std::string text = error_of(Code::bad_input, [&] { (void)find_latest(group, folder()); });
    EXPECT_THAT(
        text,
        AllOf(HasSubstr("step-00000005/manifest.json"), HasSubstr("step-00000010/shard-00001.h5")));
  });
}

TEST_F(FindLatest, SeesTheOldOneBetweenTwoRenames) {
  fs::remove_all(step(5));
  fs::rename(step(10), folder() / removed_name(10));

  const Latest latest = find_latest(folder());

  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->step(), 10);
}

TEST_F(FindLatest, BroadcastsTheOpenedCheckpoint) {
  run_on_ranks(3, [&](comm::Group& group) {
    const Checkpoint c = open_checkpoint(group, step(10));
    EXPECT_EQ(c.manifest, open_checkpoint(step(10)).manifest);
    EXPECT_THAT(error_of(Code::bad_input, [&] { (void)open_checkpoint(group, step(11)); }),
                HasSubstr("step-00000011"));
  });
}

}  // namespace
}  // namespace cambium::checkpoint
