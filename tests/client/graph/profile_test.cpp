// Profiles of graphs: each launch of a run inside of the run, whatever the way in which it runs unwatched.
#include "kiln/client/profile.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "loaded_plan.h"

namespace kiln {
namespace {

using profile::Kind;
using profile::Span;
using testing::ElementsAreArray;

TEST(GraphProfiles, HaveEachLaunchInsideOfItsRun) {
  const CompiledGraph fn = test::loaded();
  const std::vector<float> x = test::numbers(24, 1), state = test::numbers(24, -5);
  const auto run = [&] { return fn({array(x, {3, 8}), array(state, {3, 8})}); };
  const auto unwatched = run();
  ASSERT_TRUE(profile::start().ok());
  const auto watched = run();
  const auto profile = profile::stop();
  ASSERT_TRUE(unwatched && watched && profile);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT((*watched)[i].as<float>(), ElementsAreArray((*unwatched)[i].as<float>()));
  }
  const auto outer = std::ranges::find(profile->spans, Kind::kRun, &Span::kind);
  ASSERT_NE(outer, profile->spans.end());
  EXPECT_EQ(outer->name, fn.plan().name);
  EXPECT_EQ(outer->device, "interp");
  std::vector<std::string> launches, planned;
  for (const Span& span : profile->spans) {
    if (span.kind != Kind::kLaunch) continue;
    launches.push_back(span.name);
    EXPECT_GE(span.begin_ns, outer->begin_ns);
    EXPECT_LE(span.end_ns, outer->end_ns);
  }
  for (const graph::PlannedLaunch& launch : fn.plan().launches) {
    planned.push_back(fn.plan().kernels[launch.kernel].kernel.name);
  }
  EXPECT_EQ(launches, planned);
}

}  // namespace
}  // namespace kiln
