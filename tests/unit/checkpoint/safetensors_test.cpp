// unit/checkpoint/safetensors_test.cpp — public tensor files: what is written is read, every dtype
// keeps its values, and a damaged file is named.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

#include "support/bits.hpp"
#include "support/throws.hpp"

namespace cambium::checkpoint {
namespace {

using cambium::testing::expect_error;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors()
      : folder_(std::filesystem::temp_directory_path() /
                ("cambium-safetensors-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }

  ~Safetensors() override {
    std::filesystem::remove_all(folder_);
  }

  // A file of a header as it stands and some bytes of data.
  void put(const std::string& header,
           const std::string& data,
           const char* name = "model.safetensors") {
    std::ofstream out(folder_ / name, std::ios::binary);
    for (std::uint64_t length = header.size(), i = 0; i < 8; ++i) {
      out.put(static_cast<char>(length >> (8 * i) & 0xffU));
    }
    out << header << data;
  }

  void expect_refused(const std::string& header,
                      const std::string& data,
                      const std::vector<std::string>& words) {
    put(header, data);
    SCOPED_TRACE(header);
    expect_error(Code::bad_input, words, [&] {
      for (const PublicTensor& t : list_tensors(folder_)) {
        (void)read_tensor(t);
      }
    });
  }

  std::filesystem::path folder_;
};

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  const std::vector<float> a = {1.5F, -0.0F, 1e-42F, std::numeric_limits<float>::infinity(), 7, 8};
  const std::vector<float> b = {3};

  write_tensors(folder_ / "model.safetensors",
                {{"b.weight", {2, 3}, [&] { return a; }}, {"a.bias", {1}, [&] { return b; }}});

  const std::vector<PublicTensor> list = list_tensors(folder_);
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].name, "a.bias");
  EXPECT_EQ(list[1].shape, (std::vector<dim_t>{2, 3}));
  EXPECT_EQ(list[1].shape_text(), "(2, 3)");
  EXPECT_BITS_EQ(read_tensor(list[0]), b);
  EXPECT_BITS_EQ(read_tensor(list[1]), a);
}

TEST_F(Safetensors, NarrowTypesAreWidenedExactly) {
  // Of each: 1, -2, the smallest denormal, infinity.
  put(R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}})",
      std::string("\x00\x3c\x00\xc0\x01\x00\x00\x7c\x80\x3f\x00\xc0\x01\x00\x80\x7f", 16));

  const std::vector<PublicTensor> list = list_tensors(folder_);

  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_BITS_EQ(read_tensor(list[1]), (std::vector<float>{1, -2, 0x1p-24F, infinity}));
  EXPECT_BITS_EQ(read_tensor(list[0]), (std::vector<float>{1, -2, 0x1p-133F, infinity}));
}

TEST_F(Safetensors, ShardsAreFoundByTheIndex) {
  put(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      std::string(4, '\0'),
      "one.safetensors");
  put(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      std::string(4, '\0'),
      "two.safetensors");
  std::ofstream(folder_ / "model.safetensors.index.json")
      << R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})";

  const std::vector<PublicTensor> list = list_tensors(folder_);

  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1].file.filename(), "two.safetensors");
  std::filesystem::remove(folder_ / "two.safetensors");
  expect_error(
      Code::bad_input, {"two.safetensors", "cannot open"}, [&] { (void)list_tensors(folder_); });
}

TEST_F(Safetensors, DamagedFilesAreNamed) {
  const std::string eight(8, '\0');
  expect_refused("", "", {"model.safetensors", "header"});
  expect_refused("[1, 2", eight, {"header is not one"});
  expect_refused("[1, 2]", eight, {"header is not one"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[2]}})", eight, {"header is not one"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
                 eight,
                 {"a: its data stand at 0 to 12", "8 bytes"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, {"8 to 0"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                 eight,
                 {"a: 8 bytes for shape (3) of F32"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, {"(-2)"});
  // A product that overflows to the right size.
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                 "",
                 {"shape"});
  expect_refused(
      R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", eight, {"unknown dtype"});
  expect_refused(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
                 eight,
                 {"a: dtype I64, expected F32, F16 or BF16"});
  std::ofstream(folder_ / "model.safetensors", std::ios::binary) << "abc";
  expect_error(Code::bad_input, {"3 bytes, too short"}, [&] { (void)list_tensors(folder_); });
  std::ofstream(folder_ / "model.safetensors", std::ios::binary) << std::string(9, '\xff');
  expect_error(Code::bad_input, {"a header of"}, [&] { (void)list_tensors(folder_); });
}

}  // namespace
}  // namespace cambium::checkpoint
