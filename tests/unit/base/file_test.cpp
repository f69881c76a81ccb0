// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace cambium {
namespace {

using ::testing::HasSubstr;

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "file test 'q\" XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }

  void TearDown() override {
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(File, IsReadAsItWasWritten) {
  const std::string content("a\0b\r\n\xff", 6);
  write_file_atomically(folder_ / "x", content);
  EXPECT_EQ(read_file(folder_ / "x"), content);

  write_file_atomically(folder_ / "x", "");
  EXPECT_EQ(read_file(folder_ / "x"), "");
}

TEST_F(File, AtomicWritesLeaveNothingElse) {
  write_file_atomically(folder_ / "x", std::string(1 << 20, 'x'));
  write_file_atomically(folder_ / "x", "short");

  EXPECT_EQ(read_file(folder_ / "x"), "short");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(File, AFailedWriteLeavesTheOldContent) {
  write_file_atomically(folder_ / "x", "old");
  std::filesystem::create_directory(folder_ / "x.tmp");  // the temporary cannot be created

  EXPECT_THROW(write_file_atomically(folder_ / "x", "new"), Error);

  EXPECT_EQ(read_file(folder_ / "x"), "old");
}

TEST_F(File, LinesAreAppendedWhole) {
  append_line(folder_ / "log", "one", Durable::no);
  append_line(folder_ / "log", "two", Durable::yes);
  EXPECT_EQ(read_file(folder_ / "log"), "one\ntwo\n");
}

TEST_F(File, ErrorsNameThePathAndTheReason) {
  const std::filesystem::path path = folder_ / "absent" / "x";
  const auto error_of = [](auto&& call) {
    try {
      call();
    } catch (const Error& e) {
      return std::pair(e.code(), std::string(e.what()));
    }
    return std::pair(Code::bug, std::string("no error"));
  };

  const auto reading = error_of([&] { (void)read_file(path); });
  const auto writing = error_of([&] { write_file_atomically(path, "x"); });
  const auto appending = error_of([&] { append_line(path, "x", Durable::no); });
  const auto syncing = error_of([&] { sync_folder(folder_ / "absent"); });

  EXPECT_EQ(reading.first, Code::bad_input);
  EXPECT_THAT(reading.second, HasSubstr(path.string() + ": cannot open: No such file"));
  for (const auto& [code, text] : {writing, appending, syncing}) {
    EXPECT_EQ(code, Code::storage);
    EXPECT_THAT(text, HasSubstr("absent"));
    EXPECT_THAT(text, HasSubstr("No such file"));
  }
}

}  // namespace
}  // namespace cambium
