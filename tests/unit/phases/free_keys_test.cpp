// SPDX-License-Identifier: Apache-2.0
#include "phases/free_keys.hpp"

#include <gtest/gtest.h>

namespace cambium::phases {
namespace {

using nlohmann::json;

TEST(FreeKeys, ChangesNameBothValues) {
  const json before = {{"parallel.stages", {2, 1}}, {"run.isa", "avx2"}, {"run.threads", 1}};
  const json after = {{"parallel.stages", {1, 2}}, {"run.isa", "avx2"}, {"run.threads", 2}};
  EXPECT_EQ(changed_keys(before, after),
            json::array({{{"key", "parallel.stages"}, {"from", {2, 1}}, {"to", {1, 2}}},
                         {{"key", "run.threads"}, {"from", 1}, {"to", 2}}}));
  EXPECT_EQ(changed_keys(before, before), json::array());
}

TEST(FreeKeys, AKeyThatOnlyOneVersionKnowsIsNoChange) {
  EXPECT_EQ(changed_keys({{"old", 1}}, {{"new", 1}}), json::array());
  EXPECT_EQ(changed_keys(json::object(), {{"new", 1}}), json::array());
}

}  // namespace
}  // namespace cambium::phases
