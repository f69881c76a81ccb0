// Kills and full disks: the last good checkpoint is never lost.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/hooks.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using cambium::testing::run_on_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kKilled = 42;
constexpr int kSurvived = 43;

// Runs `work` in a child that ends, without any clean-up, at the `count`-th passing of `point`. Its
// exit status.
int run_until(const std::string& point, int count, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int left = count;
    test_hook = [&](const char* here) {
      if (point == here && --left == 0) {
        ::_exit(kKilled);
      }
    };
    work();
    ::_exit(kSurvived);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The kept one is step 5 (old) or step 10 (new), whole and with its own numbers.
void expect_old_or_new(const fs::path& folder, const std::string& where) {
  const Latest latest = find_latest(folder);
  ASSERT_TRUE(latest.checkpoint.has_value()) << where;
  const dim_t step = latest.checkpoint->step();
  EXPECT_TRUE(step == 5 || step == 10) << where;
  expect_part(*latest.checkpoint, make_model(static_cast<std::uint64_t>(step)), 1, 0, 0);
}

TEST(Kill, AtEveryPointLeavesTheOldOrTheNew) {
  for (const char* point : kHookPoints) {
    for (const int count : {1, 3}) {
      const TemporaryFolder folder;
      const Retention keep_one{.keep_last = 1, .keep_every = 0, .pinned = {}};
      write_model(folder.path(), 5, make_model(5), 3, keep_one);
      const std::string where = std::string(point) + " #" + std::to_string(count);

      const int status = run_until(
          point, count, [&] { write_model(folder.path(), 10, make_model(10), 3, keep_one); });

      EXPECT_TRUE(status == kKilled || (status == kSurvived && count > 1))
          << where << ": " << status;
      expect_old_or_new(folder.path(), where);
      // The same save again, as a restarted job would.
      write_model(folder.path(), 10, make_model(10), 2, keep_one);
      expect_model(folder.path() / "step-00000010", make_model(10));
      EXPECT_TRUE(list_steps(folder.path(), kPartialSuffix).empty()) << where;
      EXPECT_TRUE(list_steps(folder.path(), kRemovedSuffix).empty()) << where;
    }
  }
}

// The step is there already and is written again: at every point one of the two is whole.
TEST(Kill, WhileReplacingLeavesTheOldOrTheNew) {
  for (const char* point : kHookPoints) {
    const TemporaryFolder folder;
    write_model(folder.path(), 5, make_model(1), 2);

    run_until(point, 1, [&] { write_model(folder.path(), 5, make_model(2), 2); });

    const Latest latest = find_latest(folder.path());
    ASSERT_TRUE(latest.checkpoint.has_value()) << point;
    const Checkpoint& c = *latest.checkpoint;
    const bool is_old = [&] {
      const auto old = make_model(1);
      std::vector<char> memory(old[0].bytes.size());
      const Target target{
          old[0].array.name, ElementType::f32, {{0, 37}, {0, 24}}, memory.data(), 24};
      read_slices(c, std::span(&target, 1));
      return memory == old[0].bytes;
    }();
    expect_part(c, make_model(is_old ? 1 : 2), 1, 0, 0);
  }
}

TEST(HookPoints, AreAllPassedInTheirOrder) {
  const TemporaryFolder folder;
  const Retention keep_one{.keep_last = 1, .keep_every = 0, .pinned = {}};
  write_model(folder.path(), 5, make_model(5), 1, keep_one);
  std::vector<std::string> seen;
  test_hook = [&](const char* point) {
    if (std::find(seen.begin(), seen.end(), point) == seen.end()) {
      seen.emplace_back(point);
    }
  };

  write_model(folder.path(), 10, make_model(10), 1, keep_one);

  test_hook = nullptr;
  EXPECT_EQ(seen, std::vector<std::string>(kHookPoints.begin(), kHookPoints.end()));
}

// A disk of `size` in memory; is_there() is false where this user may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    const std::string options = std::string("size=") + size;
    mounted_ = ::mount("none", point_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }

  ~SmallDisk() {
    if (mounted_) {
      ::umount2(point_.path().c_str(), MNT_DETACH);
    }
  }

  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool is_there() const {
    return mounted_;
  }

  [[nodiscard]] const fs::path& path() const {
    return point_.path();
  }

 private:
  TemporaryFolder point_;
  bool mounted_ = false;
};

// A model of `megabytes` whose two ranks hold one half each.
std::vector<Whole> make_large(dim_t megabytes) {
  std::vector<Whole> model;
  model.emplace_back(make_array("/large", ElementType::f32, 64 * megabytes, 4096, 3), 1);
  model.emplace_back(make_array("/small", ElementType::f32, 0, 1000, 4), 1);
  return model;
}

// Two ranks save step 10 into a disk that is too small: one agreed error on both, step 5 stays
// latest and loads.
std::string expect_save_fails(const fs::path& folder, const std::vector<Whole>& model) {
  std::vector<std::string> texts(2);
  run_on_ranks(2, [&](comm::Group& group) {
    const WriteRequest request = make_request(folder, 10, model, 2, group.rank());
    texts[static_cast<std::size_t>(group.rank())] =
        error_of(Code::storage, [&] { write_checkpoint(group, request); });
  });
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(find_latest(folder).checkpoint->step(), 5);
  expect_model(folder / "step-00000005", make_model(5));
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "step-00000005");
  EXPECT_FALSE(fs::exists(folder / "step-00000010"));
  EXPECT_FALSE(fs::exists(folder / "step-00000010.partial"));
  return texts[0];
}

TEST(CheckpointFailures, C01AFullDiskIsOneAgreedError) {
  const SmallDisk disk("6m");
  if (!disk.is_there()) {
    GTEST_SKIP() << "C01 by tmpfs needs the right to mount; C01 by file size limit runs everywhere";
  }
  const fs::path folder = disk.path() / "checkpoints";
  write_model(folder, 5, make_model(5), 2);

  std::string text;
  for (const dim_t megabytes : {6, 7, 12}) {
    text = expect_save_fails(folder, make_large(megabytes));
    EXPECT_THAT(text,
                AllOf(HasSubstr((folder / "step-00000010.partial").string()),
                      HasSubstr("No space left on device")));
  }
  EXPECT_THAT(text, AllOf(HasSubstr("dataset '/large/r"), HasSubstr("free space")));

  // Space is freed: the run goes on.
  write_model(folder, 10, make_large(2), 2);
  EXPECT_EQ(find_latest(folder).checkpoint->step(), 10);
}

// The disk is filled up to every few pages, so that the failure falls on data, on metadata, on
// model.h5, on the manifest.
TEST(CheckpointFailures, C01WhereverTheDiskEndsNothingIsLost) {
  const SmallDisk disk("4m");
  if (!disk.is_there()) {
    GTEST_SKIP() << "C01 by tmpfs needs the right to mount; C01 by file size limit runs everywhere";
  }
  const fs::path folder = disk.path() / "checkpoints";
  write_model(folder, 5, make_model(5), 2);
  const auto model = make_model(10);
  int failures = 0;
  for (int pages = 0; pages < 40; ++pages) {
    const fs::path filler = disk.path() / "filler";
    const fs::space_info space = fs::space(disk.path());
    std::FILE* file = std::fopen(filler.c_str(), "w");
    const std::vector<char> fill(space.available - static_cast<std::size_t>(pages) * 4096, 'x');
    ASSERT_EQ(std::fwrite(fill.data(), 1, fill.size(), file), fill.size());
    std::fclose(file);
    try {
      write_model(folder, 10, model, 2);
    } catch (const Error& e) {
      ++failures;
      EXPECT_EQ(e.code(), Code::storage) << e.what();
      EXPECT_THAT(e.what(), HasSubstr("No space left on device")) << pages;
      EXPECT_FALSE(fs::exists(folder / "step-00000010.partial")) << pages;
    }
    const dim_t step = find_latest(folder).checkpoint->step();
    expect_model(folder / step_name(step), make_model(static_cast<std::uint64_t>(step)));
    fs::remove(filler);
    fs::remove_all(folder / "step-00000010");
    fs::remove(folder / "latest");
    fs::create_symlink("step-00000005", folder / "latest");
  }
  EXPECT_GT(failures, 5);
  EXPECT_LT(failures, 40);
}

TEST(CheckpointFailures, C01AFileSizeLimitIsOneAgreedError) {
  const TemporaryFolder folder;
  write_model(folder.path(), 5, make_model(5), 2);
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const ::rlimit low{std::min<rlim_t>(1 << 20, before.rlim_max), before.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);

  const std::string text = expect_save_fails(folder.path(), make_large(3));

  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("shard-0000"), HasSubstr("dataset '/large/r"), HasSubstr("File too large")));
}

}  // namespace
}  // namespace cambium::checkpoint
