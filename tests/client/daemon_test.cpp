// Handles on compiled kernels, with a daemon of this test's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>
#include <vector>

#include "figures.h"
#include "kiln/client/artifact.h"
#include "kiln/client/client.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "patience.h"
#include "scratch.h"

namespace kiln {
namespace {

class Compiled : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-client-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", (directory_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    if (auto daemon = client::Connection::open(options().connect)) (void)(*daemon)->shutdown();
    test::remove_scratch(directory_);
  }
  ClientOptions options(bool specialise = false) const {
    ClientOptions out;
    out.connect.runtime_dir = (directory_ / "run").string();
    out.connect.kilnd_path = KILND_EXECUTABLE;
    out.connect.start_timeout = test::kPatience;
    out.specialise_in_background = specialise;
    return out;
  }

 private:
  std::filesystem::path directory_;
};

// n elements at an address that is, or is not, a multiple of 16.
struct Buffers {
  explicit Buffers(size_t n) : x(n + 4, 1.5f), y(n + 4, 2), out(n + 4) {}
  std::vector<float> x, y, out;
};

TEST_F(Compiled, LaunchesAndPrepares) {
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.target = "cpu", .constexprs = {{"BLOCK", 256}}});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(1000);
  for (size_t shift : {0, 1}) {
    for (int n : {1, 16, 999}) {
      std::fill(b.out.begin(), b.out.end(), 0.0f);
      ASSERT_TRUE(fn->prepare(b.x.data() + shift, b.y.data(), b.out.data(), n).ok());
      auto done = fn->launch({.threads = 2}, b.x.data() + shift, b.y.data(), b.out.data(), n);
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(std::count(b.out.begin(), b.out.end(), 3.5f), n);
    }
  }
  EXPECT_EQ(fn->untyped().variant_count(), 7u);
  EXPECT_EQ(fn->untyped().metadata().entry, "kiln_entry");
}

// Without a daemon, once the artifact is there.
TEST_F(Compiled, AnArtifactBecomesAHandle) {
  const dsl::Kernel& kernel = *kernels::vector_add<>().ir();
  auto daemon = client::Connection::open(options().connect);
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  const dsl::Facts facts = {dsl::ParamFact::kAlign16, dsl::ParamFact::kNone, dsl::ParamFact::kNone,
                            dsl::ParamFact::kMultiple16};
  auto request = dsl::encode_request({kernel, (*daemon)->server().native_target, {{"BLOCK", 256}}, facts});
  ASSERT_TRUE(request.ok()) << request.error().message;
  auto artifact = (*daemon)->fetch(*request);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  auto fn = client::load_artifact(kernel, *artifact);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  alignas(16) float x[36], y[32], out[32] = {};
  std::fill(std::begin(x), std::end(x), 1.5f);
  std::fill(std::begin(y), std::end(y), 2.0f);
  const auto launch = [&](float* from, uint64_t n) {
    return fn->launch(std::vector<client::Argument>{{from, 32, 0}, {y, 32, 0}, {out, 32, 0}, {nullptr, 0, n}});
  };
  auto done = launch(x, 32);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(std::count(std::begin(out), std::end(out), 3.5f), 32);
  // The code is for multiples of 16 alone.
  auto odd = launch(x + 1, 31);
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(
      odd.error().message,
      "kernel `vector_add` was compiled for arguments with x=align16,n=x16, and these have y=align16,out=align16");
  artifact->metadata.facts.resize(kernel.params.size() + 1);
  EXPECT_EQ(client::load_artifact(kernel, *artifact).error().message,
            "the artifact of kernel `vector_add` has bad facts");
  EXPECT_FALSE(client::load_artifact(*kernels::sin2_cos2<>().ir(), *artifact).ok());
}

// A plan, prints and a failure, all the way through the daemon.
TEST_F(Compiled, LaunchesTellWhatHappened) {
  auto kernel = dsl::parse(R"(kernel k(%x: ptr<f32> readonly, %out: ptr<f32>, %n: i32) {
  option debug = true
  %i = arange {start = 0, end = 200000}
  %s = splat %n {shape = [200000]}
  %m = cmp %i, %s {pred = lt}
  %p = splat %x {shape = [200000]}
  %q = addptr %p, %i
  %v = load %q, %m
  %t = reduce %v {kind = max, axis = 0}
  print %t {message = "the greatest"}
  %zero = constant {value = 0, type = f32}
  %fine = cmp %t, %zero {pred = gt}
  assert %fine {message = "some are positive"}
  store %out, %t
})",
                           "greatest.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  Client client(options());
  auto fn = client.get(*kernel);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  EXPECT_EQ(fn->metadata().plan.size(), 2u);
  std::vector<float> x(200000, -1), out(1);
  x[150000] = 7;
  std::string printed;
  const LaunchOptions with_print{.threads = 3, .print = [&](const dsl::PrintRecord& r) { printed += to_string(r); }};
  const client::Argument arguments[] = {{x.data(), 200000, 0}, {out.data(), 1, 0}, {nullptr, 0, 200000}};
  auto done = fn->launch(arguments, with_print);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(printed, "greatest.kiln:10:3: program (0, 0, 0): the greatest\n  f32 7.0\n");
  for (const char* target : {"cpu", "interp"}) {
    auto without_sink = client.get(*kernel, {.target = target});
    ASSERT_TRUE(without_sink.ok()) << without_sink.error().message;
    testing::internal::CaptureStderr();
    done = without_sink->launch(arguments);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), printed) << target;
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  x[150000] = -2;
  done = fn->launch(arguments);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message,
            "greatest.kiln:13:3: error: assert: some are positive; false at lane 0 (program 0, 0, 0)");
}

TEST_F(Compiled, NothingToDoIsDoneAndLessThanNothingIsAnError) {
  Client client(options());
  for (const char* target : {"cpu", "interp"}) {
    auto fn = client.get(kernels::vector_add<>(), {.target = target, .constexprs = {{"BLOCK", 128}}});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    Buffers b(16);
    b.out[0] = 7;
    auto none = (*fn)(b.x.data(), b.y.data(), b.out.data(), 0);
    EXPECT_TRUE(none.ok()) << none.error().message;
    none = fn->launch({.grid = {{0, 1, 1}}}, b.x.data(), b.y.data(), b.out.data(), 16);
    EXPECT_TRUE(none.ok()) << none.error().message;
    EXPECT_EQ(b.out[0], 7);
    auto negative = (*fn)(b.x.data(), b.y.data(), b.out.data(), -3);
    ASSERT_FALSE(negative.ok());
    EXPECT_EQ(negative.error().message,
              "kernel `vector_add`: grid axis 0 is 0: `div(n + 127, 128)` with n = -3; no size is negative");
  }
}

// Of vectors and spans; behind a bare pointer nobody knows what lies.
TEST_F(Compiled, ChecksTheBoundsOfArraysThatKnowTheirSize) {
  Client client(options());
  const auto copy = dsl::lang::kernel("copy", {"x", "out", "n", "B=64"},
                                      [](dsl::lang::Ptr<const dsl::lang::f32> x, dsl::lang::Ptr<dsl::lang::f32> out,
                                         dsl::lang::i32 n, dsl::lang::Const B) {
                                        dsl::lang::grid(dsl::lang::cdiv(n, B));
                                        const dsl::lang::Value i = dsl::lang::program_id(0) * B;
                                        dsl::lang::tile(out, {n}).store({i}, dsl::lang::tile(x, {n}).load({i}, {B}));
                                      })
                        .check_bounds();
  ASSERT_TRUE(copy.ir().ok()) << copy.ir().error().message;
  for (const char* target : {"cpu", "interp"}) {
    auto fn = client.get(copy, {.target = target});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    std::vector<float> x(70, 1), room(100, 7);
    auto done = (*fn)(x, std::span(room).first(70), 70);
    EXPECT_TRUE(done.ok()) << target << ": " << done.error().message;
    EXPECT_EQ(std::count(room.begin(), room.end(), 1), 70);
    for (float& y : room) y = 7;
    done = (*fn)(x, std::span(room).first(69), 70);
    ASSERT_FALSE(done.ok()) << target;
    EXPECT_NE(done.error().message.find("69"), std::string::npos) << done.error().message;
    EXPECT_EQ(room[69], 7);
    done = (*fn)(std::span(x).first(65), room, 70);
    EXPECT_FALSE(done.ok()) << target;
  }
}

TEST_F(Compiled, AskOfTheirLaunchesWhatTheirAuthorsRequire) {
  Client client(options());
  using namespace dsl::lang;
  const auto fill = kernel("fill", {"out", "n", "B=64"}, [](Ptr<f32> out, i32 n, Const B) {
    require(n <= B, "one block holds all of it");
    tile(out, {n}).store({0}, zeros(f32_t, {B}));
  });
  ASSERT_TRUE(fill.ir().ok()) << fill.ir().error().message;
  for (const char* target : {"cpu", "interp"}) {
    auto fn = client.get(fill, {.target = target});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    std::vector<float> out(65, 7);
    auto done = (*fn)(out, 65);
    ASSERT_FALSE(done.ok()) << target;
    EXPECT_EQ(done.error().message.substr(0, done.error().message.find('\n')),
              "kernel `fill`: le(n, B) is false (n=65, B=64): one block holds all of it");
    EXPECT_EQ(out[0], 7);
    done = (*fn)(out, 64);
    EXPECT_TRUE(done.ok()) << target << ": " << done.error().message;
    EXPECT_EQ(std::count(out.begin(), out.end(), 0), 64);
  }
}

TEST_F(Compiled, SpecialisesBehindALaunch) {
  Client client(options(true));
  auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 128}}});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(512);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (fn->untyped().variant_count() < 2 && std::chrono::steady_clock::now() < give_up) {
    ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 512).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(fn->untyped().variant_count(), 2u);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 512).ok());
  EXPECT_EQ(b.out[511], 3.5f);
}

TEST_F(Compiled, AheadForAMachineThatIsNotHere) {
  Client client(options());
  auto other = client.compile(kernels::vector_add<>(), {.target = "cpu:aarch64", .constexprs = {{"BLOCK", 64}}});
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->metadata.needs->architecture, "aarch64");
  EXPECT_EQ(static_cast<int64_t>(other->code.size()), other->metadata.code_bytes);
  auto text = client.compile(kernels::vector_add<>(), {.target = "cpu:aarch64", .emit = "asm"});
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_NE(std::string(reinterpret_cast<const char*>(text->code.data()), text->code.size()).find("kiln_entry:"),
            std::string::npos);
  EXPECT_FALSE(client.compile(kernels::vector_add<>(), {.target = "interp"}).ok());
}

// As docs/use/authoring.md has it: what is written to files says there what it is, and the daemon keeps it. NVIDIA's
// assembler may be missing, and then it is PTX.
TEST_F(Compiled, AheadForGpusThatAreNotHere) {
  Client client(options());
  for (const std::string target : {"cuda:sm_90a", "amd:gfx942"}) {
    const CompileAhead what{.target = target, .constexprs = {{"BLOCK", 4096}}};
    const auto code = client.compile(kernels::vector_add<>(), what);
    if (!code && code.error().message.find("built without") != std::string::npos) continue;
    ASSERT_TRUE(code.ok()) << code.error().message;
    EXPECT_EQ(code->metadata.target, target);
    EXPECT_EQ(static_cast<int64_t>(code->code.size()), code->metadata.code_bytes);
    const std::string bytes(reinterpret_cast<const char*>(code->code.data()), code->code.size());
    EXPECT_TRUE(bytes.substr(1, 3) == "ELF" || bytes.find(".target sm_90a") != std::string::npos) << bytes;
    const auto read = abi::read_metadata(abi::write_metadata(code->metadata));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->target, target);
    EXPECT_EQ(read->constexprs.at("BLOCK"), 4096);
    ASSERT_TRUE(read->device.has_value());
    EXPECT_GT(read->device->threads, 0);
    const auto daemon = client::Connection::open(options().connect);
    ASSERT_TRUE(daemon.ok()) << daemon.error().message;
    const auto before = test::figures_of(**daemon);
    ASSERT_TRUE(client.compile(kernels::vector_add<>(), what).ok());
    const auto after = test::figures_of(**daemon);
    EXPECT_GT(before["compiles_total"], 0);
    EXPECT_EQ(after["compiles_total"], before["compiles_total"]) << "it was kept";
  }
}

TEST_F(Compiled, AheadForThisMachineItIsAHitAndRunsWithoutAClient) {
  Client client(options());
  const auto kernel = kernels::vector_add<>();
  auto ahead = client.compile(kernel, {.constexprs = {{"BLOCK", 96}}});
  ASSERT_TRUE(ahead.ok()) << ahead.error().message;
  auto got = client.get(kernel, {.constexprs = {{"BLOCK", 96}}});
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_NE(got->untyped().metadata().served_from, "compile");
  auto fn = client::load_artifact(*kernel.ir(), *ahead);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(100);
  const client::Argument arguments[] = {client::to_argument(b.x), client::to_argument(b.y), client::to_argument(b.out),
                                        client::to_argument(int32_t{100})};
  ASSERT_TRUE(fn->launch(arguments).ok());
  EXPECT_EQ(b.out[99], 3.5f);
}

// As many as a GPU's 4096 bytes of parameters take, of four bytes each.
TEST_F(Compiled, OfAThousandParameters) {
  constexpr int kParams = 1000;
  std::string text = "kernel thousand(%y: ptr<i32>";
  for (int i = 0; i < kParams; ++i) text += ", %x" + std::to_string(i) + ": i32";
  text += ") {\n  grid [1, 1, 1]\n  %sum = add %x0, %x" + std::to_string(kParams - 1) + " : i32\n  store %y, %sum\n}\n";
  auto kernel = dsl::parse(text, "thousand.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  Client client(options());
  auto fn = client.get(*kernel);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  int32_t y = 0;
  std::vector<client::Argument> arguments = {client::to_argument(&y)};
  for (int32_t i = 0; i < kParams; ++i) arguments.push_back(client::to_argument(i + 1));
  auto done = fn->launch(arguments);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(y, 1 + kParams);
}

std::string emit_of(const UntypedFunction& fn) { return fn.metadata().emit; }

TEST_F(Compiled, AQuickStartIsReplacedBehindTheFirstLaunch) {
  const GetOptions quick{.constexprs = {{"BLOCK", 768}}, .quick_start = true};
  Buffers b(301);
  {
    Client client(options(true));
    auto fn = client.get(kernels::vector_add<>(), quick);
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    EXPECT_EQ(emit_of(fn->untyped()), "quick");
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
      // Unaligned and of odd length: nothing is known of these arguments, for which the generic variant is there.
      std::fill(b.out.begin(), b.out.end(), 0.0f);
      ASSERT_TRUE((*fn)(b.x.data() + 1, b.y.data() + 1, b.out.data() + 1, 299).ok());
      ASSERT_EQ(b.out[299], 3.5f);
    } while (emit_of(fn->untyped()) != "so" && std::chrono::steady_clock::now() < give_up);
    EXPECT_EQ(emit_of(fn->untyped()), "so");
  }
  Client again(options(true));
  auto known = again.get(kernels::vector_add<>(), quick);
  ASSERT_TRUE(known.ok()) << known.error().message;
  EXPECT_EQ(emit_of(known->untyped()), "so") << "what is in a cache need not be compiled quickly";
}

TEST_F(Compiled, PreparedArgumentsHaveFullCodeWhateverTheStart) {
  Client client(options(true));
  auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 1280}}, .quick_start = true});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(301);
  ASSERT_TRUE(fn->prepare(b.x.data() + 1, b.y.data() + 1, b.out.data() + 1, 299).ok());
  EXPECT_EQ(emit_of(fn->untyped()), "so");
  ASSERT_TRUE((*fn)(b.x.data() + 1, b.y.data() + 1, b.out.data() + 1, 299).ok());
  EXPECT_EQ(b.out[299], 3.5f);
}

// Nobody would replace what it began with.
TEST_F(Compiled, AClientThatCompilesNothingBehindItsCallersHasNoQuickStart) {
  Client client(options(false));
  auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 1792}}, .quick_start = true});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  EXPECT_EQ(emit_of(fn->untyped()), "so");
}

TEST_F(Compiled, ManyThreadsGetAndLaunchWhileVariantsArrive) {
  Client client(options(true));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Buffers b(300);
      for (int i = 0; i < 50; ++i) {
        auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 64}}});
        ASSERT_TRUE(fn.ok()) << fn.error().message;
        const int n = 1 + (i * 16 + t) % 300;
        ASSERT_TRUE(fn->launch({.threads = 2}, b.x.data() + i % 2, b.y.data(), b.out.data(), n).ok());
        ASSERT_EQ(b.out[static_cast<size_t>(n) - 1], 3.5f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One handle, whose variants are swapped in between the launches of 64 threads: each launch has one of them, whole.
TEST_F(Compiled, SixtyFourThreadsLaunchWhileVariantsSwap) {
  Client client(options(true));
  auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 64}}});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::atomic<int> launches{0}, wrong{0};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  // Lengths and addresses of four kinds, each with a variant of its own.
  auto settled = [&] { return fn->untyped().variant_count() >= 3 || std::chrono::steady_clock::now() > give_up; };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 64; ++t) {
      threads.emplace_back([&, t] {
        Buffers b(300);
        for (int after = 0; after < 20; after += settled() ? 1 : 0) {
          const int n = (t % 2 ? 16 : 1) + 16 * (after % 8);
          const int shift = t / 2 % 2;
          std::fill(b.out.begin(), b.out.end(), 0.0f);
          const bool done = fn->launch({.threads = 1}, b.x.data() + shift, b.y.data(), b.out.data(), n).ok();
          const bool right = std::all_of(b.out.begin(), b.out.begin() + n, [](float x) { return x == 3.5f; }) &&
                             std::all_of(b.out.begin() + n, b.out.end(), [](float x) { return x == 0; });
          wrong += done && right ? 0 : 1;
          ++launches;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(fn->untyped().variant_count(), 3u);
  std::printf("[ FIGURE ] %d launches by 64 threads while %zu variants arrived: %d wrong\n", launches.load(),
              fn->untyped().variant_count(), wrong.load());
}

// The time to the first result, with a specialised variant wanted behind it and without. Judged with KILN_SOAK only.
TEST_F(Compiled, TheFirstResultWaitsForTheGenericVariantOnly) {
  std::vector<double> alone, tiered;
  Client plain(options(false)), specialising(options(true));
  Buffers b(512);
  ASSERT_TRUE(plain.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 16}}}).ok());  // the daemon is up
  auto daemon = client::Connection::open(options().connect);
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  const bool judged = ::getenv("KILN_SOAK") != nullptr;
  for (int i = 0; i < (judged ? 200 : 12); ++i) {
    const bool behind = i % 2;
    const auto begin = std::chrono::steady_clock::now();
    auto fn = (behind ? specialising : plain).get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 512 + i}}});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 512).ok());
    (behind ? tiered : alone)
        .push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    EXPECT_EQ(b.out[511], 3.5f);
    // What was begun behind this one must not be measured with the next.
    for (auto left = 1; left > 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      left = test::figures_of(**daemon)["jobs"].get<int>();
    }
  }
  for (auto* times : {&alone, &tiered}) std::sort(times->begin(), times->end());
  const double without = alone[alone.size() / 2], with = tiered[tiered.size() / 2];
  if (judged) {
    EXPECT_LE(with, 1.1 * without);
  }
  std::printf("[ FIGURE ] first result: %.1f ms with the generic compile alone, %.1f ms with a variant behind it\n",
              without, with);
}

TEST_F(Compiled, DestructionDoesNotWaitForTheBackground) {
  Buffers b(64);
  {
    Client client(options(true));
    auto fn = client.get(kernels::vector_add<>(), {.constexprs = {{"BLOCK", 32}}});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 64).ok());
  }
  EXPECT_EQ(b.out[63], 3.5f);
}

}  // namespace
}  // namespace kiln
