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
      for (const PublicTensor& t : list_tensors(folder_).tensors) {
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
                {{"b.weight", {2, 3}, [&] { return a; }}, {"a.bias", {1}, [&] { return b; }}},
                {{"format", "pt"}});

  const std::vector<PublicTensor> list = list_tensors(folder_).tensors;
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

  const std::vector<PublicTensor> list = list_tensors(folder_).tensors;

  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_BITS_EQ(read_tensor(list[1]), (std::vector<float>{1, -2, 0x1p-24F, infinity}));
  EXPECT_BITS_EQ(read_tensor(list[0]), (std::vector<float>{1, -2, 0x1p-133F, infinity}));
}

const std::string kZeros(4, '\0');

std::string one_float(const std::string& name) {
  return "{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
}

class PublicFailures : public Safetensors {
 protected:
  void put_index(const std::string& map) {
    std::ofstream(folder_ / "model.safetensors.index.json") << "{\"weight_map\":" << map << "}";
  }

  void expect_listing(const std::vector<std::string>& words) {
    expect_error(Code::bad_input, words, [&] { (void)list_tensors(folder_); });
  }
};

TEST_F(PublicFailures, H04AnIndexAndItsShardsMustAgree) {
  put(one_float("a"), kZeros, "one.safetensors");
  put(one_float("b"), kZeros, "two.safetensors");
  put(one_float("a"), kZeros, "three.safetensors");
  const std::string whole = R"({"a":"one.safetensors","b":"two.safetensors"})";
  put_index(whole);

  const PublicFolder folder = list_tensors(folder_);
  ASSERT_EQ(folder.tensors.size(), 2U);
  EXPECT_EQ(folder.tensors[0].file.filename(), "one.safetensors");
  EXPECT_EQ(folder.tensors[1].file.filename(), "two.safetensors");
  ASSERT_EQ(folder.notices.size(), 1U);
  EXPECT_NE(folder.notices[0].find("three.safetensors: not taken"), std::string::npos);

  put_index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  expect_listing({"index.json", "c is not in two.safetensors"});
  put_index(R"({"a":"two.safetensors","b":"two.safetensors"})");
  expect_listing({"a is not in two.safetensors"});
  put_index(R"({"a":"one.safetensors","b":"two.safetensors","c":"three.safetensors"})");
  expect_listing({"a stands in", "too"});
  put_index(R"({"a":"../one.safetensors"})");
  expect_listing({"is no file of the folder"});
  put_index(whole);
  std::filesystem::remove(folder_ / "one.safetensors");
  std::filesystem::remove(folder_ / "two.safetensors");
  expect_listing({"not there: one.safetensors, two.safetensors"});
}

TEST_F(PublicFailures, H05WhatIsNoSafetensorsFileIsNamedWithAHint) {
  const auto refuse = [&](const std::string& content, const std::string& hint) {
    std::ofstream(folder_ / "model.safetensors", std::ios::binary) << content;
    SCOPED_TRACE(hint);
    expect_listing({"model.safetensors", hint});
  };
  refuse("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer");
  refuse("<!DOCTYPE html><html><body>404</body></html>", "web page");
  refuse("", "0 bytes, too short");
  refuse("abcd", "4 bytes, too short");
  refuse(std::string(8, '\0'), "header is not one");
  refuse(std::string(7, '\0') + "\x80", "it is cut short, or no safetensors file");  // 2^63
  std::filesystem::remove(folder_ / "model.safetensors");
  expect_listing({"not there: model.safetensors"});
  put(one_float("a"), std::string(3, '\0'));
  expect_listing({"a: its data stand at 0 to 4", "3 bytes of data", "cut short"});
}

TEST_F(PublicFailures, H08MixedTypesAtOddPlacesKeepTheirValues) {
  // The header ends at an odd byte; keys are not sorted; offsets count from its end.
  const std::string header =
      R"({"z":{"dtype":"F32","shape":[],"data_offsets":[6,10]},"__metadata__":{"x":"y"},)"
      R"("h":{"dtype":"F16","shape":[1],"data_offsets":[4,6]},)"
      R"("n":{"dtype":"I64","shape":[1],"data_offsets":[10,18]},)"
      R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[18,18]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  put(header + std::string(header.size() % 2 == 0 ? 3 : 2, ' '),
      std::string("\x80\x3f\x00\xc0\x00\x3c\x00\x00\x20\x40\x07\0\0\0\0\0\0\0", 18));

  const std::vector<PublicTensor> list = list_tensors(folder_).tensors;

  ASSERT_EQ(list.size(), 5U);
  EXPECT_EQ(list[0].begin % 2, 1U);
  EXPECT_BITS_EQ(read_tensor(list[0]), (std::vector<float>{1, -2}));  // b
  EXPECT_TRUE(read_tensor(list[1]).empty());                          // e
  EXPECT_BITS_EQ(read_tensor(list[2]), (std::vector<float>{1}));      // h
  EXPECT_EQ(list[4].shape_text(), "()");
  EXPECT_BITS_EQ(read_tensor(list[4]), (std::vector<float>{2.5F}));  // z
  expect_error(Code::bad_input, {"n: dtype I64, expected F32, F16 or BF16"}, [&] {
    (void)read_tensor(list[3]);
  });
  expect_refused(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})",
                 kZeros + kZeros,
                 {"a: unknown dtype \"F4\""});
}

TEST_F(Safetensors, DamagedHeadersAreNamed) {
  const std::string eight(8, '\0');
  expect_refused("", "", {"model.safetensors", "header"});
  expect_refused("[1, 2", eight, {"header is not one"});
  expect_refused("[1, 2]", eight, {"header is not one"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[2]}})", eight, {"header is not one"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", eight, {"8 to 0"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                 eight,
                 {"a: 8 bytes for shape (3) of F32"});
  expect_refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", eight, {"(-2)"});
  // A product that overflows to the right size.
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                 "",
                 {"shape"});
}

}  // namespace
}  // namespace cambium::checkpoint
