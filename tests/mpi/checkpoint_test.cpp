// Checkpoints of real ranks: written by this many, read by 1, 2 and 3 of them; failures are agreed.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "comm/collectively.hpp"
#include "support/mpi_main.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using cambium::testing::world;
using ::testing::HasSubstr;

// One folder for all ranks, made and removed by rank 0.
class SharedFolder {
 public:
  explicit SharedFolder(comm::Group& group) : group_(group) {
    std::string name;
    if (group.rank() == 0) {
      own_.emplace();
      name = own_->path().string();
    }
    name.resize(4096);
    group.broadcast(name.data(), name.size(), 0);
    path_ = name.c_str();
  }

  ~SharedFolder() {
    group_.barrier();
  }

  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const fs::path& path() const {
    return path_;
  }

 private:
  comm::Group& group_;
  std::optional<TemporaryFolder> own_;
  fs::path path_;
};

TEST(CheckpointRanks, AreReadByOtherNumbersOfRanks) {
  comm::Group& group = world().group();
  const SharedFolder folder(group);
  const auto model = make_model(1);

  const WriteResult result =
      write_checkpoint(group, make_request(folder.path(), 10, model, group.size(), group.rank()));

  const Checkpoint checkpoint = open_checkpoint(group, result.path);
  EXPECT_TRUE(verify(group, checkpoint).empty());
  for (const int readers : {1, 2, 3, group.size()}) {
    if (group.rank() < readers) {
      expect_part(checkpoint, model, readers, group.rank(), group.rank());
    }
  }
  const Latest latest = find_latest(group, folder.path());
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->step(), 10);
  EXPECT_TRUE(latest.warnings.empty());
}

// The arrays of a checkpoint by N ranks and of one by a single rank are the same bits (M06 of
// failures: with ranks that have nothing to write).
TEST(CheckpointRanks, M06EqualTheFileOfOneRank) {
  comm::Group& group = world().group();
  const SharedFolder folder(group);
  const auto model = make_model(2);
  const auto many = write_checkpoint(
      group, make_request(folder.path() / "many", 10, model, group.size(), group.rank()));

  if (group.rank() == 0) {
    const auto self = comm::make_self_group("one");
    const auto one = write_checkpoint(*self, make_request(folder.path() / "one", 10, model, 1, 0));
    const Comparison c = compare(open_checkpoint(one.path), open_checkpoint(many.path));
    EXPECT_TRUE(c.equal()) << joined(c.differences);
    EXPECT_EQ(c.arrays_compared, static_cast<dim_t>(model.size()));
  }
}

// C01 on the last rank only: its files may not grow. Every rank throws the same line and the old
// one stays latest.
TEST(CheckpointRanks, C01AFailureOfOneRankIsAgreed) {
  comm::Group& group = world().group();
  const SharedFolder folder(group);
  const auto model = make_model(3);
  std::vector<Whole> large;
  large.emplace_back(make_array("/large", ElementType::f32, 600, 1024, 3), 0);
  write_checkpoint(group, make_request(folder.path(), 5, model, group.size(), group.rank()));
  ::rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const ::rlimit low{1 << 18, before.rlim_max};
  if (group.rank() == group.size() - 1) {
    ::setrlimit(RLIMIT_FSIZE, &low);
  }

  const std::string text = error_of(Code::storage, [&] {
    write_checkpoint(group, make_request(folder.path(), 10, large, group.size(), group.rank()));
  });

  ::setrlimit(RLIMIT_FSIZE, &before);
  const std::string shard = shard_name(group.size() - 1);
  EXPECT_THAT(text, HasSubstr("step-00000010.partial/" + shard));
  EXPECT_THAT(text, HasSubstr("File too large"));
  const Latest latest = find_latest(group, folder.path());
  ASSERT_TRUE(latest.checkpoint.has_value());
  EXPECT_EQ(latest.checkpoint->step(), 5);
  EXPECT_FALSE(fs::exists(folder.path() / partial_name(10)));
  // The next save goes through.
  write_checkpoint(group, make_request(folder.path(), 15, model, group.size(), group.rank()));
  EXPECT_EQ(find_latest(group, folder.path()).checkpoint->step(), 15);
}

}  // namespace
}  // namespace cambium::checkpoint
