// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.hpp"

#include <gmock/gmock.h>
#include <limits>

#include "checkpoint/inspect.hpp"
#include "unit/checkpoint/fixture.hpp"

namespace cambium::checkpoint {
namespace {

using nlohmann::json;
using testing::error_of;
using ::testing::HasSubstr;

Manifest make_manifest() {
  Manifest m;
  m.step = 7;
  m.run = "quick \"start\"";
  m.files = {{"shard-00000.h5", 100, 0x0123456789abcdefULL}, {"model.h5", 5, 1}};
  m.state = {{"tau", 0.1}, {"seed", 18446744073709551615ULL}, {"phase", "pretrain"}};
  m.arrays = {{{"/a", ElementType::f32, 2, 3, false, {{"uid", 1}}},
               {{0, {{0, 2}, {0, 1}}}, {0, {{0, 2}, {1, 3}}}}},
              {{"/v", ElementType::f64, 1, 4, true, json::object()}, {{0, {{0, 1}, {0, 4}}}}}};
  return m;
}

TEST(Manifest, SurvivesTheWayThroughText) {
  const Manifest m = make_manifest();

  const Manifest back = manifest_from_text(to_text(m), "manifest.json");

  EXPECT_EQ(back, m);
}

TEST(Manifest, RefusesANewerVersionAndAnotherFormat) {
  json j = json::parse(to_text(make_manifest()));
  j["version"] = kFormatVersion + 1;
  EXPECT_THAT(error_of(Code::bad_input, [&] { (void)manifest_from_text(j.dump(), "m"); }),
              HasSubstr("version 2, this program reads 1 to 1"));
  j["version"] = 1;
  j["format"] = "other";
  EXPECT_THAT(error_of(Code::bad_input, [&] { (void)manifest_from_text(j.dump(), "m"); }),
              HasSubstr("'other'"));
}

TEST(Manifest, IgnoresKeysThatALaterProgramAdds) {
  json j = json::parse(to_text(make_manifest()));
  j["comment"] = "x";

  EXPECT_EQ(manifest_from_text(j.dump(), "m"), make_manifest());
}

TEST(Manifest, IsRefusedAtEveryLengthButTheWhole) {
  const std::string text = to_text(make_manifest());
  for (std::size_t n = 0; n + 2 < text.size(); n += 7) {
    EXPECT_THROW((void)manifest_from_text(text.substr(0, n), "m"), Error) << n;
  }
}

TEST(Manifest, RefusesArraysThatAreNotTiled) {
  Manifest m = make_manifest();
  m.arrays[0].slices.pop_back();

  EXPECT_THAT(error_of(Code::bad_input, [&] { (void)manifest_from_text(to_text(m), "m"); }),
              HasSubstr("'/a' (2, 3): (rows 0..2, cols 1..3) is covered by no slice"));
}

TEST(Manifest, RefusesAFileOutsideTheFolder) {
  Manifest m = make_manifest();
  m.files[0].name = "../shard";

  EXPECT_THROW((void)manifest_from_text(to_text(m), "m"), Error);
}

TEST(State, RefusesWhatJsonWouldTurnIntoNull) {
  const json state = {{"a", {1, {{"b", std::numeric_limits<double>::infinity()}}}}};

  EXPECT_THAT(error_of(Code::bug, [&] { check_finite(state); }), HasSubstr("state.a[1].b"));
}

TEST(Inspect, NamesArraysShapesAndBytes) {
  Checkpoint c;
  c.path = "step-00000007";
  c.manifest = make_manifest();

  const json j = inspect_json(c);
  const std::string text = inspect_text(c);

  EXPECT_EQ(j["elements"], 10);
  EXPECT_EQ(j["bytes"], 105);
  EXPECT_EQ(j["arrays"][1]["shape"], json({4}));
  EXPECT_EQ(j["arrays"][1]["bytes"], 32);
  EXPECT_EQ(j["state"]["phase"], "pretrain");
  EXPECT_THAT(text, HasSubstr("step 7"));
  EXPECT_THAT(text, HasSubstr("(2, 3)"));
  EXPECT_THAT(text, HasSubstr("uid=1"));
  EXPECT_THAT(text, HasSubstr("0123456789abcdef"));
}

}  // namespace
}  // namespace cambium::checkpoint
