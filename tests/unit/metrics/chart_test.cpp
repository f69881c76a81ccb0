// Ticks and curves.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metrics/svg_chart.hpp"
#include "metrics/text_format.hpp"

namespace cambium::metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Ticks, AreRoundNumbersInside) {
  EXPECT_THAT(nice_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(nice_ticks(1.93, 5.57, 5), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(nice_ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(nice_ticks(3, 3, 5), ElementsAre(3));
}

TEST(Chart, DrawsPointsInsideItsFrame) {
  const Chart chart{.title = "t",
                    .x_label = "step",
                    .y_label = "loss",
                    .series = {{.name = "a", .points = {{1, 5}, {2, 3}, {3, 4}}}}};
  const std::string svg = render_chart(chart);

  std::array<double, 6> at{};
  const std::size_t path = svg.find(" d=\"M");
  ASSERT_NE(path, std::string::npos) << svg;
  ASSERT_EQ(std::sscanf(svg.c_str() + path,
                        " d=\"M%lf %lfL%lf %lfL%lf %lf\"",
                        &at[0],
                        &at[1],
                        &at[2],
                        &at[3],
                        &at[4],
                        &at[5]),
            6)
      << svg;
  EXPECT_LT(at[0], at[2]);
  EXPECT_LT(at[1], at[3]) << "the larger value is higher, so its y is smaller";
  EXPECT_GT(at[3], at[5]);
  EXPECT_THAT(svg, HasSubstr(">step</text>"));
  EXPECT_THAT(svg, HasSubstr(">loss</text>"));
}

TEST(Chart, BreaksTheLineWhereAValueIsNotFinite) {
  const Chart chart{
      .series = {{.name = "a", .points = {{1, 5}, {2, 4}, {3, kNotANumber}, {4, 3}, {5, 2}}}}};
  const std::string svg = render_chart(chart);

  EXPECT_EQ(std::ranges::count(svg.substr(svg.find(" d=\"")), 'M'), 2);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Chart, OfNothingIsEmpty) {
  EXPECT_EQ(render_chart({.series = {{.name = "a", .points = {}}}}), "");
  EXPECT_EQ(render_chart({.series = {{.name = "a", .points = {{1, kNotANumber}}}}}), "");
  EXPECT_NE(render_chart({.series = {{.name = "a", .points = {{1, 0}}}}}), "");
}

TEST(Chart, KeepsASpikeOfALongSeries) {
  Series points;
  for (int i = 0; i < 100000; ++i) {
    points.push_back({static_cast<double>(i), i == 77777 ? 50.0 : 1.0});
  }
  const std::string svg =
      render_chart({.series = {{.name = "a", .points = points}}, .y_min = 0, .y_max = 50});

  EXPECT_LT(svg.size(), 60000U);
  EXPECT_THAT(svg, HasSubstr(" 40.0L")) << "the spike reaches the top of the frame";
}

TEST(TextFormat, WritesNumbersForPeople) {
  EXPECT_EQ(count_text(1638400), "1,638,400");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(large_text(1638400), "1.64 M");
  EXPECT_EQ(seconds_text(0.21), "210 ms");
  EXPECT_EQ(seconds_text(192), "3 min 12 s");
  EXPECT_EQ(loss_text(kNotANumber), "not finite");
  EXPECT_EQ(escape_html("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
}

}  // namespace
}  // namespace cambium::metrics
