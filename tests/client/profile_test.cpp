// Profiles: exactly the spans of what a known program did, the table, the trace, and what the environment asks for.
#include "kiln/client/profile.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using nlohmann::json;
using profile::Kind;
using profile::Profile;
using profile::Span;
using testing::ElementsAre;
using testing::HasSubstr;

// x[i] += i, a program for each element.
auto count_up() {
  return dsl::lang::kernel("count_up", {"x", "n"}, [](dsl::lang::Ptr<dsl::lang::i32> x, dsl::lang::i32 n) {
    dsl::lang::grid(n);
    const auto i = dsl::lang::program_id(0);
    dsl::lang::store(x + i, dsl::lang::load(x + i) + i);
  });
}

class Profiles : public testing::Test {
 protected:
  Profiles() {
    auto got = client_.get(count_up(), {.target = "interp"});
    if (!got) ADD_FAILURE() << got.error().message;
    if (got) kernel_ = *got;
    auto device = Device::open("cpu");
    if (!device) ADD_FAILURE() << device.error().message;
    device_.emplace(std::move(*device));
  }
  ~Profiles() override { (void)profile::stop(); }

  // What `work` did.
  template <class Work>
  Profile of(const Work& work, const profile::Options& options = {}) {
    EXPECT_TRUE(profile::start(options).ok());
    work();
    auto out = profile::stop();
    EXPECT_TRUE(out.ok());
    return out ? *out : Profile();
  }

  void launch(std::vector<int32_t>& x, const LaunchOptions& options = {}) {
    auto done = kernel_.launch(options, x, static_cast<int32_t>(x.size()));
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  Client client_;
  Function<dsl::lang::Ptr<dsl::lang::i32>, dsl::lang::i32> kernel_;
  std::optional<Device> device_;
};

std::map<std::string, int> counts(const Profile& profile) {
  std::map<std::string, int> out;
  for (const Span& span : profile.spans) {
    ++out[std::string(profile::kind_name(span.kind)) + (span.on_device ? " done " : " ") + span.name];
  }
  return out;
}

TEST_F(Profiles, HaveEachLaunchWithItsGridAndBytes) {
  std::vector<int32_t> x(7);
  const Profile profile = of([&] {
    for (int i = 0; i < 3; ++i) launch(x);
  });
  ASSERT_EQ(profile.spans.size(), 3u);
  int64_t before = profile.begin_ns;
  for (const Span& span : profile.spans) {
    EXPECT_EQ(span.kind, Kind::kLaunch);
    EXPECT_EQ(span.name, "count_up");
    EXPECT_EQ(span.device, "interp");
    EXPECT_THAT(span.grid, ElementsAre(7, 1, 1));
    EXPECT_EQ(span.bytes, 28u);
    EXPECT_EQ(span.track, static_cast<uint64_t>(::gettid()));
    EXPECT_FALSE(span.on_device);
    EXPECT_LE(before, span.begin_ns);  // one after the other
    EXPECT_LE(span.begin_ns, span.end_ns);
    before = span.end_ns;
  }
  EXPECT_LE(before, profile.end_ns);
}

TEST_F(Profiles, HaveNothingOfWhatLaunchesNothing) {
  std::vector<int32_t> none;
  EXPECT_THAT(of([&] { launch(none); }).spans, testing::IsEmpty());
}

TEST_F(Profiles, CountCopiesFillsWaitsAndAllocations) {
  std::vector<int32_t> host(100);
  const Profile profile = of([&] {
    auto buffer = DeviceBuffer<int32_t>::allocate(*device_, 100);
    auto stream = Stream::create(*device_);
    ASSERT_TRUE(buffer.ok() && stream.ok());
    ASSERT_TRUE(buffer->copy_from(host, *stream).ok());
    ASSERT_TRUE(buffer->fill(1, *stream).ok());
    ASSERT_TRUE(buffer->copy_to(host, *stream).ok());
    ASSERT_TRUE(stream->synchronise().ok());
    ASSERT_TRUE(device_->synchronise().ok());
  });
  EXPECT_EQ(counts(profile), (std::map<std::string, int>{{"allocate arrays", 1},
                                                         {"copy from the device", 1},
                                                         {"copy to the device", 1},
                                                         {"fill ", 1},
                                                         {"wait device", 1},
                                                         {"wait stream", 1}}));
  for (const Span& span : profile.spans) {
    EXPECT_EQ(span.device, "cpu:0");
    EXPECT_EQ(span.bytes, span.kind == Kind::kWait ? 0u : 400u) << span.name;
  }
}

// The launch on the host has an arrow to the moment when the stream did it, which is later and in order.
TEST_F(Profiles, SayWhenAStreamDidALaunch) {
  std::vector<int32_t> x(5);
  auto stream = Stream::create(*device_);
  ASSERT_TRUE(stream.ok());
  const Profile profile = of([&] {
    for (int i = 0; i < 4; ++i) launch(x, {.stream = &*stream});
    ASSERT_TRUE(stream->synchronise().ok());
  });
  EXPECT_EQ(counts(profile),
            (std::map<std::string, int>{{"launch count_up", 4}, {"launch done count_up", 4}, {"wait stream", 1}}));
  for (const Span& done : profile.spans) {
    if (!done.on_device) continue;
    const auto asked = std::ranges::find_if(
        profile.spans, [&](const Span& span) { return span.flow == done.flow && !span.on_device; });
    ASSERT_NE(asked, profile.spans.end());
    EXPECT_NE(done.flow, 0u);
    EXPECT_LE(asked->begin_ns, done.begin_ns);
    EXPECT_EQ(done.track, reinterpret_cast<uint64_t>(stream->native()));
    EXPECT_THAT(done.grid, ElementsAre(5, 1, 1));
  }
}

TEST_F(Profiles, HaveReplaysAndWhatTheyRun) {
  std::vector<int32_t> x(5);
  auto stream = Stream::create(*device_);
  ASSERT_TRUE(stream.ok());
  const Profile profile = of([&] {
    auto recording = Recording::capture(*stream, [&]() -> Result<void> {
      return kernel_.launch({.stream = &*stream}, x, static_cast<int32_t>(x.size()));
    });
    ASSERT_TRUE(recording.ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(recording->replay(*stream).ok());
    ASSERT_TRUE(stream->synchronise().ok());
  });
  const auto all = counts(profile);
  EXPECT_EQ(all.at("replay recording"), 3);
  EXPECT_EQ(all.at("launch done count_up"), 3);
}

TEST_F(Profiles, NestScopesByName) {
  std::vector<int32_t> x(1);
  const Profile profile = of([&] {
    const profile::Scope step("step");
    {
      const profile::Scope part(std::string("a part of a long name ") + "that is copied");
    }
    launch(x);
  });
  ASSERT_EQ(profile.spans.size(), 3u);
  const Span& step = profile.spans[0];
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(profile.spans[1].name, "a part of a long name that is copied");
  for (const Span& span : profile.spans) {
    EXPECT_GE(span.begin_ns, step.begin_ns);
    EXPECT_LE(span.end_ns, step.end_ns);
  }
}

TEST_F(Profiles, ShowWhatAGetTakes) {
  const Profile profile = of([&] { ASSERT_TRUE(client_.get(count_up(), {.target = "interp"}).ok()); });
  EXPECT_EQ(counts(profile), (std::map<std::string, int>{{"compile count_up", 1}, {"get count_up", 1}}));
}

// Threads note at once, and some are gone before the end.
TEST_F(Profiles, AreOfAllThreads) {
  constexpr int kThreads = 8, kLaunches = 200;
  const Profile profile = of([&] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        std::vector<int32_t> x(1);
        for (int k = 0; k < kLaunches; ++k) launch(x);
      });
    }
  });
  EXPECT_EQ(profile.spans.size(), size_t{kThreads * kLaunches});
  std::map<uint64_t, int> tracks;
  for (const Span& span : profile.spans) ++tracks[span.track];
  EXPECT_EQ(tracks.size(), size_t{kThreads});
  EXPECT_TRUE(std::ranges::is_sorted(profile.spans, {}, &Span::begin_ns));
}

// Who starts and stops while others launch loses nothing but what lies outside.
TEST_F(Profiles, StartAndStopWhileOthersLaunch) {
  std::jthread other([&](const std::stop_token& stop) {
    std::vector<int32_t> x(1);
    while (!stop.stop_requested()) launch(x);
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> x(2);
    const Profile profile = of([&] { launch(x); });
    const auto mine = std::ranges::count_if(
        profile.spans, [](const Span& span) { return span.track == static_cast<uint64_t>(::gettid()); });
    EXPECT_EQ(mine, 1);
    for (const Span& span : profile.spans) EXPECT_GE(span.begin_ns, profile.begin_ns);
  }
}

TEST_F(Profiles, KeepNoMoreSpansThanAsked) {
  std::vector<int32_t> x(1);
  const Profile profile = of(
      [&] {
        for (int i = 0; i < 10; ++i) launch(x);
      },
      {.most_spans = 4});
  EXPECT_EQ(profile.spans.size(), 4u);
  EXPECT_EQ(profile.dropped, 6u);
  EXPECT_THAT(profile::summary(profile), HasSubstr("6 spans more were not kept"));
}

// Until now is a part of what there is at the end.
TEST_F(Profiles, ShowHowFarTheyAre) {
  std::vector<int32_t> x(1);
  const Profile whole = of([&] {
    launch(x);
    const auto first = profile::so_far();
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(counts(*first), (std::map<std::string, int>{{"launch count_up", 1}}));
    EXPECT_LE(first->spans[0].end_ns, first->end_ns);
    std::jthread([&] { launch(x); }).join();
    launch(x);
    const auto second = profile::so_far();
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(second->spans.size(), 3u);
    EXPECT_TRUE(std::ranges::is_sorted(second->spans, {}, &Span::begin_ns));
    EXPECT_EQ(second->begin_ns, first->begin_ns);
  });
  EXPECT_EQ(whole.spans.size(), 3u);
  EXPECT_EQ(profile::so_far().error().message, "profile::so_far(): no profile is on");
}

TEST_F(Profiles, AreOneAtATime) {
  ASSERT_TRUE(profile::start().ok());
  EXPECT_EQ(profile::start().error().message, "profile::start(): a profile is on already");
  ASSERT_TRUE(profile::stop().ok());
  EXPECT_EQ(profile::stop().error().message, "profile::stop(): no profile is on");
}

TEST_F(Profiles, AreNotOfAChildUntilItStartsOne) {
  ASSERT_TRUE(profile::start().ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool was_off = !profile::stop().ok();
    const bool starts = profile::start().ok();
    {
      const profile::Scope scope("child");
    }
    auto mine = profile::stop();
    ::_exit(was_off && starts && mine && mine->spans.size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(profile::stop().ok());
}

TEST_F(Profiles, HaveFallbacksOfTheProgram) {
  profile::fallback("before", "nobody profiles");
  ASSERT_TRUE(profile::start().ok());
  profile::fallback("softshrink", "no kernel", 512);
  auto profile = profile::stop();
  ASSERT_TRUE(profile.ok());
  ASSERT_EQ(profile->spans.size(), 1u);
  EXPECT_EQ(profile->spans[0].kind, Kind::kFallback);
  EXPECT_EQ(profile->spans[0].name + ": " + profile->spans[0].detail, "softshrink: no kernel");
  EXPECT_EQ(profile->spans[0].bytes, 512u);
}

TEST_F(Profiles, AreATableByWhatTakesLongest) {
  Profile profile;
  profile.end_ns = 10'000'000;
  profile.spans = {
      {.kind = Kind::kLaunch, .name = "small", .device = "cpu", .begin_ns = 0, .end_ns = 1000},
      {.kind = Kind::kLaunch, .name = "small", .device = "cpu", .begin_ns = 2000, .end_ns = 5000},
      {.kind = Kind::kCopy, .name = "to the device", .device = "cuda:0", .bytes = 4'000'000, .end_ns = 2'000'000},
      {.kind = Kind::kFallback, .name = "mlp", .detail = "not fused: its worker died"},
      {.kind = Kind::kFallback, .name = "softshrink", .detail = "no kernel", .bytes = 512},
      {.kind = Kind::kFallback, .name = "softshrink", .detail = "no kernel", .bytes = 512}};
  EXPECT_EQ(profile::summary(profile),
            "kiln: 6 spans in 10.000 ms\n"
            "   count     total ms      mean us   longest us    share        bytes  what\n"
            "       1        2.000     2000.000     2000.000   20.0 %     2.0 GB/s  copy cuda:0 to the device\n"
            "       2        0.004        2.000        3.000    0.0 %               launch cpu small\n"
            "fallback of mlp: not fused: its worker died\n"
            "fallback of softshrink, 2 times, 1024 bytes copied: no kernel\n");
}

// Of launches whose time is that of the work, where their bytes are known; the roof is what a copy reaches.
TEST_F(Profiles, SayHowNearToTheRoofLaunchesCome) {
  Profile profile;
  profile.end_ns = 10'000'000;
  profile.spans = {
      {.kind = Kind::kLaunch, .name = "fast", .device = "cpu", .bytes = 9'000, .begin_ns = 0, .end_ns = 1000},
      {.kind = Kind::kLaunch, .name = "slow", .device = "cpu", .begin_ns = 0, .end_ns = 900},
      {.kind = Kind::kLaunch, .name = "there", .device = "cuda:0", .bytes = 1'000, .begin_ns = 0, .end_ns = 800},
      {.kind = Kind::kLaunch,
       .on_device = true,
       .name = "there",
       .device = "cuda:0",
       .bytes = 1'000,
       .begin_ns = 0,
       .end_ns = 700}};
  profile.roofs = {{"cpu", 10}, {"cuda:0", 4}};
  EXPECT_EQ(
      profile::summary(profile),
      "kiln: 4 spans in 10.000 ms\n"
      "   count     total ms      mean us   longest us    share        bytes   of roof  what\n"
      "       1        0.001        1.000        1.000    0.0 %     9.0 GB/s      90 %  launch cpu fast\n"
      "       1        0.001        0.900        0.900    0.0 %                         launch cpu slow\n"
      "       1        0.001        0.800        0.800    0.0 %     1.2 GB/s            launch cuda:0 there\n"
      "       1        0.001        0.700        0.700    0.0 %     1.4 GB/s      36 %  launch done cuda:0 there\n"
      "the memory of cpu gives 10.0 GB/s, by a copy\n"
      "the memory of cuda:0 gives 4.0 GB/s, by a copy\n");
  profile.roofs.clear();
  profile.spans.push_back({.kind = Kind::kLaunch, .name = "gone", .device = "cuda:99"});
  profile.spans.push_back({.kind = Kind::kLaunch, .name = "slowly", .device = "interp"});
  profile.spans.push_back({.kind = Kind::kCopy, .name = "elsewhere", .device = "amd:0"});
  std::erase_if(profile.spans, [](const auto& span) { return span.device == "cuda:0"; });
  profile::find_roofs(profile);
  ASSERT_EQ(profile.roofs.size(), 1u) << "devices that are gone, and those without launches, have none";
  EXPECT_GT(profile.roofs.at("cpu"), 0.1);
  EXPECT_LT(profile.roofs.at("cpu"), 10'000);
}

TEST_F(Profiles, AreATraceWithArrows) {
  Profile profile;
  profile.begin_ns = 1'000'000;
  profile.spans = {{.kind = Kind::kLaunch,
                    .name = "k\xff",
                    .device = "cuda:0",
                    .grid = {4, 1, 1},
                    .track = 77,
                    .flow = 9,
                    .begin_ns = 1'001'000,
                    .end_ns = 1'003'000},
                   {.kind = Kind::kLaunch,
                    .on_device = true,
                    .name = "k",
                    .device = "cuda:0",
                    .track = 0x7f00,
                    .flow = 9,
                    .begin_ns = 1'005'000,
                    .end_ns = 1'015'000},
                   {.kind = Kind::kFallback, .name = "mlp", .detail = "why"}};
  const json trace = json::parse(profile::trace_json(profile));
  std::map<std::string, std::vector<json>> events;
  for (const json& event : trace.at("traceEvents")) events[event.at("ph")].push_back(event);
  ASSERT_EQ(events["X"].size(), 2u);
  EXPECT_EQ(events["X"][0].at("ts"), 1.0);
  EXPECT_EQ(events["X"][0].at("dur"), 2.0);
  EXPECT_EQ(events["X"][0].at("tid"), 77);
  EXPECT_EQ(events["X"][0].at("args").at("grid"), json::array({4, 1, 1}));
  EXPECT_EQ(events["X"][1].at("ts"), 5.0);
  EXPECT_NE(events["X"][0].at("pid"), events["X"][1].at("pid"));
  ASSERT_EQ(events["s"].size(), 1u);
  ASSERT_EQ(events["f"].size(), 1u);
  EXPECT_EQ(events["s"][0].at("id"), events["f"][0].at("id"));
  EXPECT_EQ(events["f"][0].at("pid"), events["X"][1].at("pid"));
  ASSERT_EQ(events["i"].size(), 1u);
  EXPECT_EQ(events["i"][0].at("args").at("why"), "why");
  EXPECT_EQ(events["M"].size(), 3u);  // two processes and a stream have names
}

}  // namespace
}  // namespace kiln::test
