// What an outsider sees: h5py, which knows nothing of ours, reads model.h5.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using namespace testing;

// The script reads FOLDER/model.h5 and compares it with the raw bytes of each array; 0 when all is
// as expected.
int run_reader(const fs::path& folder, const fs::path& expected, const char* mode) {
  const std::string command =
      fmt::format("cd / && '{}' '{}/tests/unit/checkpoint/read_model.py' '{}' '{}' {}",
                  CAMBIUM_PYTHON,
                  CAMBIUM_SOURCE_DIR,
                  folder.string(),
                  expected.string(),
                  mode);
  return std::system(command.c_str());
}

void write_expected(const fs::path& folder, const std::vector<Whole>& model) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < model.size(); ++i) {
    const Array& a = model[i].array;
    const fs::path raw = folder / fmt::format("{}.raw", i);
    std::ofstream(raw, std::ios::binary)
        .write(model[i].bytes.data(), static_cast<std::streamsize>(model[i].bytes.size()));
    list.push_back({{"name", a.name},
                    {"type", name_of(a.type)},
                    {"shape", a.vector ? nlohmann::json{a.cols} : nlohmann::json{a.rows, a.cols}},
                    {"attributes", a.attributes},
                    {"raw", raw.string()}});
  }
  std::ofstream(folder / "expected.json") << list.dump();
}

TEST(ModelFile, ShowsEveryArrayWholeToH5py) {
  const TemporaryFolder folder;
  const TemporaryFolder expected;
  const auto model = make_model();
  write_expected(expected.path(), model);
  const fs::path path = write_model(folder.path() / "a", 5, model, 3).path;

  EXPECT_EQ(run_reader(path, expected.path() / "expected.json", "whole"), 0);

  // The folder may move: sources are relative to model.h5.
  const fs::path moved = folder.path() / "moved";
  fs::rename(folder.path() / "a", moved);
  EXPECT_EQ(run_reader(moved / "step-00000005", expected.path() / "expected.json", "whole"), 0);

  // A shard is gone: its elements read as NaN, not as zeros, and the others as before.
  fs::remove(moved / "step-00000005/shard-00001.h5");
  EXPECT_EQ(run_reader(moved / "step-00000005", expected.path() / "expected.json", "missing"), 0);
}

}  // namespace
}  // namespace cambium::checkpoint
