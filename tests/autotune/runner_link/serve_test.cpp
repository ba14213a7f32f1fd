// Handles with a mode, the daemon and its tuner, all as built; only the device is a runner's (fake_runner.cpp).
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"
#include "online_case.h"

namespace kiln::autotune {
namespace {

using Online = OnlineCase;
using testing::HasSubstr;

TEST_F(Online, ModeMaxWaitsForTheBestAndASecondProgramMeasuresNothing) {
  EXPECT_EQ(tuned(options(), 8), 40);
  const size_t measured = launches();
  EXPECT_GT(measured, 0u);
  EXPECT_EQ(tuned(options(), 8), 40);
  EXPECT_EQ(launches(), measured);
  stop_daemon();
  EXPECT_EQ(tuned(options(), 8), 40);
  EXPECT_EQ(launches(), measured);
}

TEST_F(Online, ModeAutotuneRunsTheDefaultUntilABetterConfigIsFound) {
  Client client(options());
  auto function = get(client, Mode::kAutotune);
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(launched(*function, 16), 100);
  EXPECT_TRUE(eventually([&] { return launched(*function, 16) == 40; }));
}

TEST_F(Online, AKernelWithoutArraysIsRefusedAndSaysWhy) {
  Client client(options());
  auto kernel =
      dsl::parse("kernel k(%x: ptr<f32>, %n: i32) { %v = constant {value = 1.0, type = f32} store %x, %v }", "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto refused = client.get(*kernel, {.mode = Mode::kMax});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the array `x`"), std::string::npos) << refused.error().message;
  auto function = client.get(*kernel);
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(launched(*function, 4), 1);
}

// A second is not enough for hundreds of launches of 20 ms. Nobody waits for it twice; a larger budget is for the rest.
TEST_F(Online, ASearchThatItsBudgetEndedIsNotRepeated) {
  set("KILN_FAKE_RUNNER_LAUNCH", "20");
  // On a busy machine the budget may be over before the first launch: another shape is another question.
  int32_t n = 8;
  float best = tuned(options(), n, 300);
  for (; launches() == 0 && n < 16; best = tuned(options(), n, 300)) ++n;
  const size_t measured = launches();
  EXPECT_GT(measured, 0u);
  stop_daemon();
  EXPECT_EQ(tuned(options(), n, 300), best);
  EXPECT_EQ(tuned(options(), n, 150), best);
  EXPECT_EQ(launches(), measured);
  stop_daemon();
  set("KILN_FAKE_RUNNER_LAUNCH", "0");
  EXPECT_EQ(tuned(options(), n, 60'000), 40);
  EXPECT_GT(launches(), measured);
}

// The record of a choice, as a search would have left it.
Record chosen(const std::string& target, const std::string& hardware, const std::string& builder, int64_t us) {
  const dsl::Kernel kernel = says_how_long();
  const Job job{"j", kernel, expect_ok(make_workload(kernel, {{"n", 8}})), target, {}};
  Record out;
  out.key = expect_ok(record_key(job, hardware, builder, {}));
  out.config = {{"behave", 0}, {"us", us}};
  out.median_us = out.low_us = out.high_us = static_cast<double>(us);
  out.samples = 9;
  return out;
}

TEST_F(Online, AGoldenFileWinsAndFrozenMeasuresNothing) {
  const std::string target = connect()->server().native_target;
  stop_daemon();
  {
    auto records = expect_ok(Records::open(file_of("shipped.sqlite")));
    const Record best = chosen(target, "the author's machine", "the author's compiler", 70);
    expect_ok(records->put(best));
    expect_ok(records->set_best(best.key, best.config));
    (void)expect_ok(records->export_lines(file_of("golden.jsonl")));
  }
  daemon_args_ = {"--golden", file_of("golden.jsonl"), "--frozen"};
  EXPECT_EQ(tuned(options(), 8), 70);
  EXPECT_EQ(tuned(options(), 9), 100);  // a shape that the author did not tune
  EXPECT_EQ(launches(), 0u);
  stop_daemon();
  // Without --frozen the golden choice still wins, and other shapes are tuned.
  daemon_args_ = {"--golden", file_of("golden.jsonl")};
  EXPECT_EQ(tuned(options(), 8), 70);
  EXPECT_EQ(launches(), 0u);
  EXPECT_EQ(tuned(options(), 9), 40);
  EXPECT_EQ(stats()["config"]["golden_path"], file_of("golden.jsonl"));
  stop_daemon();
  // By the environment; and with nothing to measure on, what ships holds all the same.
  daemon_args_.clear();
  set("KILN_TUNE_GOLDEN", file_of("golden.jsonl"));
  set("KILN_TUNE_FROZEN", "1");
  set("KILN_RUNNER", "/nonexistent");
  EXPECT_EQ(tuned(options(), 8), 70);
}

// Before anything is measured what ships runs in the default's place; a measurement counts more.
TEST_F(Online, WhatShipsTakesTheDefaultsPlace) {
  const std::string target = connect()->server().native_target;
  stop_daemon();
  std::filesystem::create_directories(file_of("tuned"));
  write_text(file_of("tuned/k.kiln"), kSaysHowLong);
  const nlohmann::json line = {{"kernel", "k.kiln"},
                               {"shape", {{"n", 8}}},
                               {"target", target},
                               {"config", {{"us", 70}, {"behave", 0}}},
                               {"measured_on", "the author's machine"}};
  write_text(file_of("tuned/author.jsonl"), line.dump());
  set("KILN_TUNE_SHIPPED", file_of("tuned"));
  daemon_args_ = {"--frozen"};
  EXPECT_EQ(tuned(options(), 8), 70);
  EXPECT_EQ(tuned(options(), 12), 70);    // a shape that is near
  EXPECT_EQ(tuned(options(), 100), 100);  // and one that is not
  EXPECT_EQ(launches(), 0u);
  stop_daemon();
  daemon_args_.clear();
  EXPECT_EQ(tuned(options(), 8), 40);
}

// A handle that asks for no tuning gets what is known, and has nothing measured: what ships, then what was measured.
TEST_F(Online, TheDefaultModeTakesWhatIsKnownAndMeasuresNothing) {
  const std::string target = connect()->server().native_target;
  stop_daemon();
  std::filesystem::create_directories(file_of("tuned"));
  write_text(file_of("tuned/k.kiln"), kSaysHowLong);
  const nlohmann::json line = {{"kernel", "k.kiln"},
                               {"shape", {{"n", 8}}},
                               {"target", target},
                               {"config", {{"us", 70}, {"behave", 0}}},
                               {"measured_on", "the author's machine"}};
  write_text(file_of("tuned/author.jsonl"), line.dump());
  set("KILN_TUNE_SHIPPED", file_of("tuned"));
  const auto by_default = [&](Mode mode, int32_t n) {
    Client client(options());
    auto function = expect_ok(get(client, mode));
    EXPECT_TRUE(prepared(function, n).ok());
    return launched(function, n);
  };
  EXPECT_EQ(by_default(Mode::kDefault, 8), 70);
  EXPECT_EQ(by_default(Mode::kDefault, 100), 100);  // far from what ships, and the model knows nothing of its kernel
  EXPECT_EQ(by_default(Mode::kFixed, 8), 100);
  EXPECT_EQ(launches(), 0u);
  EXPECT_FALSE(std::filesystem::exists(database()));
  EXPECT_EQ(tuned(options(), 8), 40);
  // What was measured counts more: here as a golden file, for the fake runner's name is no CPU's.
  expect_ok(expect_ok(Records::open(database()))->export_lines(file_of("golden.jsonl")));
  stop_daemon();
  set("KILN_TUNE_GOLDEN", file_of("golden.jsonl"));
  const size_t measured = launches();
  EXPECT_EQ(by_default(Mode::kDefault, 8), 40);
  EXPECT_EQ(launches(), measured);
}

TEST_F(Online, AGoldenFileThatCannotBeReadIsSaid) {
  daemon_args_ = {"--golden", file_of("absent.jsonl")};
  client::ConnectOptions strict = options().connect;
  strict.allow_pipe = false;
  auto daemon = client::Connection::open(strict);
  ASSERT_FALSE(daemon.ok());
  EXPECT_THAT(daemon.error().message, HasSubstr("absent.jsonl: No such file"));
  // One that is no golden file costs requests an error that names its line, and no launch.
  write_text(file_of("absent.jsonl"), "nonsense\n");
  Client client(options());
  auto function = get(client, Mode::kMax);
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(launched(*function, 8), 100);
  EXPECT_THAT(prepared(*function, 8).error().message, HasSubstr("absent.jsonl:1"));
}

RequestBytes request_for(const std::string& target) {
  const dsl::Kernel kernel = says_how_long();
  return expect_ok(dsl::encode_request({kernel, target, expect_ok(dsl::complete_constexprs(kernel, {}, target)), {}}));
}

// Two devices of one machine that differ: each has its own choice, and a runner that is told which one it is for.
TEST_F(Online, ARequestIsForItsDevice) {
  const std::string target = "cuda:sm_90a";
  auto daemon = connect();
  {
    std::filesystem::create_directories(file_of("data/kiln"));
    auto records = expect_ok(Records::open(database()));
    for (const auto& [hardware, us] : {std::pair("fake device", 70), {"another fake device", 150}}) {
      const Record best = chosen(target, hardware, daemon->server().builder_id, us);
      expect_ok(records->put(best));
      expect_ok(records->set_best(best.key, best.config));
    }
  }
  for (const auto& [device, us] : {std::pair(0u, 70), {1u, 150}}) {
    wire::TuneHeader header{.scalars = {{"n", 8}}, .wait = true, .device = device, .trace_id = {}};
    const wire::Tuned tuned = expect_ok(daemon->tune(request_for(target), header));
    EXPECT_EQ(tuned.config.at("us"), us);
    EXPECT_EQ(tuned.source, "tuned");
  }
  const std::string started = read_text(file_of("count"));
  EXPECT_THAT(started, AllOf(HasSubstr("--kind cuda --device 0"), HasSubstr("--kind cuda --device 1")));
  EXPECT_EQ(launches(), 0u);
}

// A driver takes its time to start. Meanwhile others are answered, each with the default.
TEST_F(Online, NobodyWaitsForADeviceToStart) {
  set("KILN_FAKE_RUNNER_GREETS_AFTER", "20000");
  auto daemon = connect();
  const std::string target = daemon->server().native_target;
  for (int32_t n : {8, 9}) {
    const wire::TuneHeader header{.scalars = {{"n", n}}, .trace_id = {}};
    const wire::Tuned tuned = expect_ok(daemon->tune(request_for(target), header));
    EXPECT_EQ(tuned.config.at("us"), 100);
    EXPECT_FALSE(tuned.final);
  }
  EXPECT_TRUE(eventually([&] { return lines("count") == 1; }));
}

// While somebody waits for a compile, the tuner that nobody waits for does not measure.
TEST_F(Online, CompilesOfOthersGoBeforeMeasurements) {
  set("KILN_FAKE_RUNNER_LAUNCH", "2");
  Client client(options());
  auto function = get(client, Mode::kAutotune);
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(launched(*function, 16), 100);
  ASSERT_TRUE(eventually([&] { return launches() > 40; }));
  // Three threads, so that hardly a moment is without a compile, for longer than any machine takes for one.
  std::vector<std::jthread> others;
  for (int64_t thread = 0; thread < 3; ++thread) {
    others.emplace_back([&, thread](const std::stop_token& stop) {
      Client foreground(options());
      for (int64_t k = 1; !stop.stop_requested() && k <= 64; ++k) {
        auto compiled = foreground.get(*kernels::matmul<>().ir(),
                                       {.constexprs = {{"BM", 32 + 16 * thread}, {"BN", 128}, {"BK", 8 * k}}});
        EXPECT_TRUE(compiled.ok()) << compiled.error().message;
      }
    });
  }
  ASSERT_TRUE(eventually([&] { return stats()["interactive_jobs"] > 0; }));
  std::this_thread::sleep_for(100ms);  // a turn on the device is ended, not broken off
  const size_t before = launches();
  std::this_thread::sleep_for(400ms);
  EXPECT_LE(launches(), before + 60) << "as many as without others";
}

// One worker: a compile that somebody waits for is behind the candidate that is being compiled, and no other.
TEST_F(Online, ACompileWaitsForNoMoreThanOneCandidate) {
  daemon_args_ = {"--workers", "1"};
  Client client(options());
  auto function = get(client, Mode::kAutotune);
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(launched(*function, 16), 100);
  ASSERT_TRUE(eventually([&] { return stats()["compiles_total"] > 3; }));
  Client foreground(options());
  const auto daemon = connect();
  // The fewest of some tries, for on a busy machine others may pass between two lines of this.
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int64_t block : {256, 512, 1024, 2048}) {
    const int64_t before = test::figures_of(*daemon)["compiles_total"];
    ASSERT_TRUE(foreground.get(*kernels::vector_add<>().ir(), {.constexprs = {{"BLOCK", block}}}).ok());
    const int64_t after = test::figures_of(*daemon)["compiles_total"];
    fewest = std::min(fewest, after - before);
  }
  EXPECT_LE(fewest, 3) << "one ran, one may have begun meanwhile, and this one";
}

}  // namespace
}  // namespace kiln::autotune
