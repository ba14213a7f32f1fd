// What the tuner makes of what is known before it measures: choices of golden files, and of other shapes.
#include <algorithm>

#include "batch_helpers.h"
#include "simulated.h"

namespace kiln::autotune {
namespace {

using namespace simulated;

double far_from(const Config& c, double a, double b, double cc) {
  const double da = steps(c, "A", a), db = steps(c, "B", b), dc = steps(c, "C", cc);
  return 1000 * std::exp(0.1 * (da * da + db * db + dc * dc));
}
double near_the_corner(const Config& c) { return far_from(c, 4, 128, 64); }

// A file that ships `choice` for the job, measured by another machine where `elsewhere`.
class Golden : public ::testing::Test {
 protected:
  void ship(const Config& choice, bool elsewhere) {
    Record record;
    record.key = *record_key(job_, elsewhere ? "another machine" : "hardware", elsewhere ? "another" : "builder", {});
    record.config = choice;
    record.kernel_name = "blocks";
    record.median_us = record.low_us = record.high_us = kShippedUs;
    record.samples = 200;
    record.is_best = true;
    auto made = expect_ok(Records::open(directory_.file("made.sqlite")));
    expect_ok(made->put(record));
    expect_ok(made->export_lines(directory_.file("golden.jsonl")));
  }
  std::unique_ptr<Records> records() {
    return Records::with_golden(expect_ok(Records::open_golden(directory_.file("golden.jsonl"))),
                                expect_ok(Records::open(directory_.file("tune.sqlite"))));
  }
  JobResult tuned(Records& records, const TuneOptions& options = {}) {
    FakeCompiler compiler;
    FakeRunner runner(near_the_corner);
    JobResult out = expect_ok(tune(job_, compiler, runner, records, machine(), options));
    launches_ = runner.launches.size();
    return out;
  }

  static constexpr double kShippedUs = 1;  // faster than anything here
  ScratchDirectory directory_;
  const Job job_ = blocks_job();
  const Config choice_ = {{"A", 64}, {"B", 16}, {"C", 8}};  // slow here
  size_t launches_ = 0;
};

TEST_F(Golden, AChoiceIsTakenWithoutMeasuringAnything) {
  for (const bool elsewhere : {false, true}) {
    for (const Search search : {Search::kAuto, Search::kExhaustive}) {
      ship(choice_, elsewhere);
      auto both = records();
      const JobResult result = tuned(*both, {.search = search});
      EXPECT_EQ(result.best, choice_);
      EXPECT_TRUE(result.finished);
      EXPECT_EQ(launches_, 0u);
    }
  }
}

// A better config was found here, before the application came with its file.
TEST_F(Golden, AChoiceWinsOverWhatWasMeasuredHere) {
  {
    auto database = expect_ok(Records::open(directory_.file("tune.sqlite")));
    EXPECT_NE(tuned(*database, {.search = Search::kExhaustive}).best, choice_);
  }
  ship(choice_, true);
  for (const bool frozen : {false, true}) {
    auto both = records();
    EXPECT_EQ(tuned(*both, {.frozen = frozen}).best, choice_);
    EXPECT_EQ(launches_, 0u);
  }
}

TEST_F(Golden, ATimeOfAnotherMachineIsNotComparedWithThoseOfThisOne) {
  ship(choice_, true);
  auto both = records();
  EXPECT_EQ(tuned(*both).best_us, 0);
  // That of this machine, where there is one.
  Record here;
  here.key = *record_key(job_, "hardware", "builder", {});
  here.config = choice_;
  here.median_us = 7000;
  here.samples = 9;
  expect_ok(both->put(here));
  EXPECT_EQ(tuned(*both).best_us, 7000);
}

TEST_F(Golden, AChoiceThatTheSpaceDoesNotHaveIsNone) {
  ship({{"A", 5}, {"B", 16}, {"C", 8}}, true);
  auto both = records();
  const JobResult result = tuned(*both);
  EXPECT_GT(launches_, 0u);
  EXPECT_LT(near_the_corner(result.best), near_the_corner(result.fallback));
}

TEST(Transfer, ShapesAreNearByTheFactorsBetweenTheirInts) {
  EXPECT_EQ(bucket_distance("M=64,N=64;f32", "M=64,N=64;f32"), 0);
  EXPECT_NEAR(bucket_distance("M=4096,N=64;f32", "M=2048,N=64;f32"), 1, 1e-3);
  EXPECT_NEAR(bucket_distance("M=4096,N=64;f32", "M=2048,N=256;f32"), 3, 1e-2);
  EXPECT_LT(bucket_distance("M=4000;f32", "M=4096;f32"), bucket_distance("M=1;f32", "M=4096;f32"));
  EXPECT_TRUE(std::isfinite(bucket_distance("M=0;f32", "M=one;f32")));
}

// The nearer shape was tuned first, the far one last.
TEST(Transfer, BeginsWithTheNearestShape) {
  const Config near = {{"A", 4}, {"B", 128}, {"C", 64}}, far = {{"A", 64}, {"B", 16}, {"C", 8}};
  MemoryRecords records;
  for (const auto& [n, best] : {std::pair(1 << 15, near), std::pair(1 << 9, far)}) {
    FakeCompiler compiler;
    FakeRunner runner([&](const Config& c) { return c == best ? 10 : 1000; });
    expect_ok(tune(blocks_job(n), compiler, runner, records, machine(), {.search = Search::kExhaustive}));
  }
  std::vector<Config> order;
  const Progress progress{.measured = [&](const std::string&, const Record& record) {
    if (std::find(order.begin(), order.end(), record.config) == order.end()) order.push_back(record.config);
  }};
  FakeCompiler compiler;
  FakeRunner runner([](const Config&) { return 1000.0; });
  expect_ok(tune(blocks_job(1 << 16), compiler, runner, records, machine(), {}, progress));
  ASSERT_GT(order.size(), 2u);
  EXPECT_EQ(order[1], near);  // behind the default
}

}  // namespace
}  // namespace kiln::autotune
