// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.hpp"
#include "checkpoint/hooks.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;
using cambium::testing::run_on_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Checkpoint, OfAnyLayoutIsReadByAnyLayout) {
  const auto model = make_model();
  for (const int writers : {1, 2, 3, 4, 7}) {
    const TemporaryFolder folder;

    const WriteResult result = write_model(folder.path(), 10, model, writers);

    EXPECT_EQ(result.path, folder.path() / "step-00000010");
    const Checkpoint checkpoint = open_checkpoint(result.path);
    EXPECT_TRUE(verify(checkpoint).empty());
    for (const int readers : {1, 2, 3, 5}) {
      for (int rank = 0; rank < readers; ++rank) {
        expect_part(checkpoint, model, readers, rank, rank % 2 == 0 ? 0 : 3);
      }
    }
  }
}

TEST(Checkpoint, KeepsArraysAttributesAndState) {
  const TemporaryFolder folder;
  const auto model = make_model();

  const Checkpoint checkpoint = open_checkpoint(write_model(folder.path(), 3, model, 2).path);

  ASSERT_EQ(checkpoint.manifest.arrays.size(), model.size());
  for (const Whole& whole : model) {
    EXPECT_EQ(checkpoint.at(whole.array.name).array, whole.array);
  }
  EXPECT_EQ(checkpoint.state()["tau"], 0.1);
  EXPECT_EQ(checkpoint.step(), 3);
  EXPECT_EQ(checkpoint.manifest.run, "test");
  EXPECT_EQ(checkpoint.find("/no/such"), nullptr);
}

TEST(Checkpoint, OfTheSameNumbersHasTheSameBytes) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  const auto model = make_model();

  const auto first = open_checkpoint(write_model(a.path(), 3, model, 3).path);
  const auto second = open_checkpoint(write_model(b.path(), 3, model, 3).path);

  EXPECT_EQ(first.manifest, second.manifest);
}

// M06: ranks without a slice write no file and nobody waits for them.
TEST(Checkpoint, M06RanksWithoutSlicesWriteNoFile) {
  const TemporaryFolder folder;
  std::vector<Whole> model;
  model.emplace_back(make_array("/one_row", ElementType::f32, 1, 2, 1), 0);

  const WriteResult result = write_model(folder.path(), 1, model, 5);

  const Checkpoint checkpoint = open_checkpoint(result.path);
  EXPECT_EQ(checkpoint.manifest.files.size(), 3U);  // two shards, model.h5
  EXPECT_FALSE(fs::exists(result.path / "shard-00000.h5"));
  expect_model(result.path, model);
}

// C12: with a low limit every slice takes many calls, and the bytes are the same.
TEST(CheckpointFailures, C12LargeTransfersAreSplit) {
  const TemporaryFolder folder;
  const auto model = make_model();
  int calls = 0;
  test_hook = [&](const char* point) {
    calls += std::string(point) == "shard.write.before" ? 1 : 0;
  };

  run_on_ranks(1, [&](comm::Group& group) {
    WriteRequest request = make_request(folder.path(), 1, model, 1, 0);
    request.transfer_limit = 40;  // less than a row
    write_checkpoint(group, request);
    request.step = 2;
    request.transfer_limit = std::size_t{1} << 30;
    write_checkpoint(group, request);
  });
  test_hook = nullptr;

  EXPECT_GT(calls, 200);
  const Checkpoint split = open_checkpoint(folder.path() / "step-00000001");
  expect_part(split, model, 1, 0, 0);
  Checkpoint whole = open_checkpoint(folder.path() / "step-00000002");
  whole.manifest.step = split.step();
  EXPECT_TRUE(compare(split, whole).equal()) << joined(compare(split, whole).differences);
}

TEST(Checkpoint, WrittenAgainReplacesTheOldOne) {
  const TemporaryFolder folder;
  write_model(folder.path(), 5, make_model(1), 3);

  write_model(folder.path(), 5, make_model(2), 2);

  expect_model(folder.path() / "step-00000005", make_model(2));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000005.partial"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000005.removed"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000005/shard-00002.h5"));
}

TEST(Checkpoint, RemovesWhatAnUnfinishedWriteLeft) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "step-00000005.partial");
  std::ofstream(folder.path() / "step-00000005.partial/shard-00000.h5") << "half";

  write_model(folder.path(), 5, make_model(), 2);

  expect_model(folder.path() / "step-00000005", make_model());
}

// Every rank throws the same text and nothing is left on disk.
std::string agreed_error(Code code,
                         int ranks,
                         const std::function<void(comm::Group&, WriteRequest&)>& spoil) {
  const TemporaryFolder folder;
  const auto model = make_model();
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  run_on_ranks(ranks, [&](comm::Group& group) {
    WriteRequest request = make_request(folder.path() / "new", 5, model, ranks, group.rank());
    spoil(group, request);
    texts[static_cast<std::size_t>(group.rank())] =
        error_of(code, [&] { write_checkpoint(group, request); });
  });
  for (const std::string& text : texts) {
    EXPECT_EQ(text, texts[0]);
  }
  EXPECT_FALSE(fs::exists(folder.path() / "new"));
  return texts[0];
}

TEST(Checkpoint, RefusesAHoleInTheTiling) {
  const std::string text =
      agreed_error(Code::bug, 3, [](comm::Group& group, WriteRequest& request) {
        if (group.rank() == 1) {
          std::erase_if(request.slices,
                        [](const Source& s) { return s.array == "/parameters/norm.weight"; });
        }
      });

  EXPECT_THAT(text, HasSubstr("'/parameters/norm.weight' (17): (5..11) is covered by no slice"));
}

TEST(Checkpoint, RefusesTwoWritersOfOnePart) {
  const std::string text =
      agreed_error(Code::bug, 2, [](comm::Group& group, WriteRequest& request) {
        if (group.rank() == 1) {
          request.slices[1].part.rows.begin -= 1;
        }
      });

  EXPECT_THAT(text, HasSubstr("'/parameters/layers.0.mlp.up.weight' (17, 13)"));
  EXPECT_THAT(text, HasSubstr("outside"));
}

TEST(Checkpoint, RefusesRanksThatDisagree) {
  const std::string text =
      agreed_error(Code::bug, 4, [](comm::Group& group, WriteRequest& request) {
        if (group.rank() == 2) {
          request.arrays[0].attributes["updates"] = 5;
        }
      });

  EXPECT_THAT(text, HasSubstr("rank 2 lists other arrays"));
}

TEST(Checkpoint, RefusesASliceOfAnotherType) {
  const std::string text =
      agreed_error(Code::bug, 2, [](comm::Group& group, WriteRequest& request) {
        if (group.rank() == 1) {
          request.slices[0].type = ElementType::f64;
        }
      });

  EXPECT_THAT(text, HasSubstr("'/parameters/embedding.weight' is f32, a slice of it f64"));
}

TEST(Read, NamesBothTypesBothShapesAndUnknownArrays) {
  const TemporaryFolder folder;
  const Checkpoint c = open_checkpoint(write_model(folder.path(), 5, make_model(), 2).path);
  std::vector<double> memory(1000);
  const auto read = [&](const char* name, ElementType type, Rectangle part) {
    const Target target{name, type, part, memory.data(), part.cols.size()};
    return error_of(Code::bad_input, [&] { read_slices(c, std::span(&target, 1)); });
  };

  EXPECT_THAT(read("/parameters/norm.weight", ElementType::f64, {{0, 1}, {0, 17}}),
              HasSubstr("stored as f32, wanted as f64"));
  EXPECT_THAT(read("/parameters/norm.weight", ElementType::f32, {{0, 1}, {0, 18}}),
              HasSubstr("(0..18) is wanted, its shape is (17)"));
  EXPECT_THAT(read("/parameters/nope", ElementType::f32, {{0, 1}, {0, 1}}),
              HasSubstr("no array '/parameters/nope'"));
}

// Damage that sizes do not show: the read itself names file and dataset.
TEST(Read, NamesFileAndDatasetOfDamage) {
  const TemporaryFolder folder;
  const auto model = make_model();
  const Checkpoint c = open_checkpoint(write_model(folder.path(), 5, model, 1).path);
  std::vector<float> memory(17);
  const Target target{model[2].array.name, ElementType::f32, {{0, 1}, {0, 17}}, memory.data(), 17};
  const auto read = [&] { read_slices(c, std::span(&target, 1)); };
  const fs::path shard = c.path / "shard-00000.h5";
  const std::string bytes = read_file(shard);

  std::string renamed = bytes;  // the dataset's link has another name
  renamed.replace(renamed.find("r0_1_c0_17"), 10, "x0_1_c0_17");
  std::ofstream(shard, std::ios::binary) << renamed;
  EXPECT_THAT(error_of(Code::bad_input, read),
              AllOf(HasSubstr(shard.string()), HasSubstr("/parameters/norm.weight/r0_1_c0_17")));

  std::ofstream(shard, std::ios::binary) << std::string(bytes.size(), 'x');
  EXPECT_THAT(error_of(Code::bad_input, read), HasSubstr(shard.string() + ": cannot open: "));

  fs::remove(shard);
  EXPECT_THAT(error_of(Code::bad_input, read),
              AllOf(HasSubstr(shard.string()), HasSubstr("No such file")));
}

// C03: another process holds a lock on the file; ours are never written in place, so it does not
// matter.
TEST(CheckpointFailures, C03AForeignLockDoesNotHinderReading) {
  const TemporaryFolder folder;
  const auto path = write_model(folder.path(), 5, make_model(), 1).path;
  const int fd = ::open((path / "shard-00000.h5").c_str(), O_RDWR);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);

  expect_model(path, make_model());

  ::close(fd);
}

// C13: the format that README.md promises: shards open in HDF5 1.8 (superblock 2), whatever library
// writes.
TEST(CheckpointFailures, C13FilesKeepTheOldSuperblock) {
  const TemporaryFolder folder;
  const auto path = write_model(folder.path(), 5, make_model(), 2).path;
  for (const char* name : {"shard-00000.h5", "shard-00001.h5", "model.h5"}) {
    const std::string bytes = read_file(path / name);
    EXPECT_EQ(bytes.substr(1, 3), "HDF");
    EXPECT_EQ(static_cast<int>(bytes[8]), 2) << name;
  }
}

}  // namespace
}  // namespace cambium::checkpoint
