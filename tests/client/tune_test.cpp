// Handles with a mode: what the tuner says reaches launches, whole, and only behind them where that was asked for.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "figures.h"
#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/kernels.h"
#include "patience.h"
#include "scratch.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;

class Tuned : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-tuned-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", (directory_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("KILN_FAKE_TUNER");
    if (auto daemon = client::Connection::open(options().connect)) (void)(*daemon)->shutdown();
    test::remove_scratch(directory_);
  }
  // Before the daemon starts, whose environment is the tuner's.
  void order(const std::string& words) { ::setenv("KILN_FAKE_TUNER", words.c_str(), 1); }
  std::string log_path() const { return (directory_ / "log").string(); }
  // With "until" of this, tuning ends when the test says so.
  std::string gate() const { return (directory_ / "gate").string(); }
  void open_gate() const { std::ofstream(gate()) << "open"; }
  std::string log() const {
    std::ifstream file(log_path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t requests() const {
    std::ifstream log(log_path());
    return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>(), '\n'));
  }
  ClientOptions options(const std::string& tuner = FAKE_TUNER) const {
    ClientOptions out;
    out.connect.runtime_dir = (directory_ / "run").string();
    out.connect.kilnd_path = KILND_EXECUTABLE;
    out.connect.start_timeout = test::kPatience;
    out.connect.daemon_args = {"--tuner", tuner};
    return out;
  }

 private:
  std::filesystem::path directory_;
};

struct Buffers {
  explicit Buffers(int n) : count(n), x(count, 1.5f), y(count, 2), out(count) {}
  int32_t n() const { return static_cast<int32_t>(count); }
  std::array<client::Argument, 4> arguments() {
    return {client::to_argument(x.data()), client::to_argument(y.data()), client::to_argument(out.data()),
            client::to_argument(n())};
  }
  size_t count;
  std::vector<float> x, y, out;
};

int64_t block_of(const Function<dsl::lang::Ptr<const dsl::lang::f32>, dsl::lang::Ptr<const dsl::lang::f32>,
                                dsl::lang::Ptr<dsl::lang::f32>, dsl::lang::i32>& fn,
                 Buffers& buffers) {
  return fn.untyped().config(buffers.arguments())["BLOCK"];
}

// A kernel of its own for each number.
auto numbered_copy(int number) {
  namespace lang = dsl::lang;
  return lang::kernel("copy_" + std::to_string(number), {"x", "out", "n", "BLOCK=4096"},
                      [number](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> out, lang::i32 n, lang::Const BLOCK) {
                        lang::grid(lang::cdiv(n, BLOCK));
                        const lang::Value start = lang::program_id(0) * BLOCK;
                        lang::tile(out, {n}).store({start}, lang::tile(x, {n}).load({start}, {BLOCK}) + number);
                      })
      .space({{"BLOCK", {512, 4096}}});
}

std::array<client::Argument, 3> arguments_of_copy(Buffers& b) {
  return {client::to_argument(b.x.data()), client::to_argument(b.out.data()), client::to_argument(b.n())};
}

// A kernel that the tuner cannot make arrays for would be launched with its default for ever, without a word.
TEST_F(Tuned, AKernelOfUnknownArraysIsRefused) {
  namespace lang = dsl::lang;
  auto unsized = lang::kernel("unsized", {"x", "n"}, [](lang::Ptr<lang::f32> x, lang::i32) {
    lang::grid(1);
    lang::store(x, 1.0f);
  });
  Client client(options());
  for (const Mode mode : {Mode::kAutotune, Mode::kMax}) {
    auto fn = client.get(unsized, {.mode = mode});
    ASSERT_FALSE(fn.ok());
    EXPECT_EQ(fn.error().message,
              "kernel `unsized` cannot be tuned: nothing says how large the array `x` is; write .array(\"x\", \"n\") "
              "behind the kernel, with its size");
  }
  EXPECT_TRUE(client.get(unsized, {}).ok());
}

TEST_F(Tuned, LaunchesTakeTheDefaultAtOnceAndSwapBehind) {
  order("config BLOCK=512 until " + gate() + " log " + log_path());
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kAutotune});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(5000);
  auto done = (*fn)(b.x.data(), b.y.data(), b.out.data(), b.n());
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(b.out[4999], 3.5f);
  EXPECT_EQ(block_of(*fn, b), 4096);
  open_gate();
  for (auto end = std::chrono::steady_clock::now() + 60s; block_of(*fn, b) != 512;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
    std::this_thread::sleep_for(5ms);
  }
  std::fill(b.out.begin(), b.out.end(), 0.0f);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  EXPECT_EQ(std::count(b.out.begin(), b.out.end(), 3.5f), 5000);
  EXPECT_EQ(requests(), 2u);  // one look-up, one that waits, however many launches

  // Another shape is another question; until it is answered, the default runs.
  Buffers other(777);
  EXPECT_EQ(block_of(*fn, other), 4096);
  ASSERT_TRUE(fn->prepare(other.x.data(), other.y.data(), other.out.data(), other.n()).ok());
  EXPECT_EQ(block_of(*fn, other), 512);
}

// The time to the first result of a new kernel, with tuning wanted behind it and without. Judged with KILN_SOAK only.
TEST_F(Tuned, TheFirstResultWaitsForNoTuning) {
  order("config BLOCK=512 delay 50 log " + log_path());
  Client client(options());
  Buffers b(5000);
  auto daemon = client::Connection::open(options().connect);
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  const auto first_result = [&](Mode mode, int number) {
    const auto begin = std::chrono::steady_clock::now();
    auto fn = client.get(numbered_copy(number), {.mode = mode});
    EXPECT_TRUE(fn.ok()) << fn.error().message;
    EXPECT_TRUE((*fn)(b.x.data(), b.out.data(), b.n()).ok());
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(b.out[4999], 1.5f + static_cast<float>(number));
    // What was begun behind this one must not be measured with the next.
    const auto end = begin + 60s;
    const auto is_tuned = [&] {
      return mode != Mode::kAutotune || fn->untyped().config(arguments_of_copy(b))["BLOCK"] == 512;
    };
    while (!is_tuned() && std::chrono::steady_clock::now() < end) {
      EXPECT_TRUE((*fn)(b.x.data(), b.out.data(), b.n()).ok());
      std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(is_tuned());
    do {
      std::this_thread::sleep_for(5ms);
    } while (test::figures_of(**daemon)["jobs"] > 0);
    return std::chrono::duration<double, std::milli>(took).count();
  };
  first_result(Mode::kAutotune, 0);  // daemon and tuner are up
  const bool judged = ::getenv("KILN_SOAK") != nullptr;
  std::vector<double> alone, tuned;
  for (int i = 1; i <= (judged ? 200 : 12); ++i) {
    (i % 2 ? tuned : alone).push_back(first_result(i % 2 ? Mode::kAutotune : Mode::kDefault, i));
  }
  for (auto* times : {&alone, &tuned}) std::sort(times->begin(), times->end());
  const double without = alone[alone.size() / 2], with = tuned[tuned.size() / 2];
  if (judged) {
    EXPECT_LE(with, 1.1 * without);
  }
  std::printf("[ FIGURE ] first result: %.1f ms by the default alone, %.1f ms with tuning behind it\n", without, with);
}

TEST_F(Tuned, ModeMaxWaitsOnceForAllThreads) {
  order("config BLOCK=256 delay 100 log " + log_path());
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kMax});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Buffers b(3000);
      const auto done = fn->launch({.threads = 1}, b.x.data(), b.y.data(), b.out.data(), b.n());
      if (!done || block_of(*fn, b) != 256 || std::count(b.out.begin(), b.out.end(), 3.5f) != 3000) ++wrong;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(requests(), 1u);
}

// One launch waits as long as it may; what it did not wait for comes later.
TEST_F(Tuned, ModeMaxWaitsNoLongerThanItMay) {
  order("config BLOCK=512 until " + gate() + " log " + log_path());
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kMax, .tune_wait_ms = 100});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(3000);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  EXPECT_EQ(b.out[2999], 3.5f);
  EXPECT_EQ(block_of(*fn, b), 4096);
  open_gate();
  EXPECT_TRUE(fn->prepare(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  EXPECT_EQ(block_of(*fn, b), 512);
  EXPECT_EQ(requests(), 2u);
}

TEST_F(Tuned, TheTunerIsToldTheDeviceOfALaunch) {
  order("config BLOCK=512 log " + log_path());
  ::setenv("KILN_CUDA_DRIVER", FAKE_CUDA, 1);
  void* fake = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(fake, nullptr);
  reinterpret_cast<void (*)(int)>(::dlsym(fake, "fake_reset"))(2);  // devices
  {
    auto device = Device::open("cuda", 1);
    ASSERT_TRUE(device.ok()) << device.error().message;
    const auto stream = client::Stream::create(*device);
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    Client client(options());
    auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kMax});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    Buffers b(3000);
    ASSERT_TRUE(fn->launch({}, b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
    EXPECT_NE(log().find("\"device\":0"), std::string::npos) << log();
    EXPECT_EQ(log().find("\"device\":1"), std::string::npos) << log();
    // Of a CPU, which has no streams: refused, but not before the tuner was asked.
    EXPECT_FALSE(fn->launch({.stream = &*stream}, b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
    EXPECT_NE(log().find("\"device\":1"), std::string::npos) << log();
  }
  ::dlclose(fake);
  ::unsetenv("KILN_CUDA_DRIVER");
}

TEST_F(Tuned, ASwapUnderManyLaunchingThreadsIsWhole) {
  order("config BLOCK=1024 delay 200");
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kAutotune});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  std::atomic<int> wrong = 0, swapped = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&] {
      Buffers b(10000);
      const auto end = std::chrono::steady_clock::now() + 60s;
      for (int after = 0; after < 20 && std::chrono::steady_clock::now() < end;) {
        std::fill(b.out.begin(), b.out.end(), 0.0f);
        const bool fine = fn->launch({.threads = 1}, b.x.data(), b.y.data(), b.out.data(), b.n()).ok();
        if (!fine || std::count(b.out.begin(), b.out.end(), 3.5f) != 10000) ++wrong;
        if (block_of(*fn, b) == 1024) ++after;
        if (after == 20) ++swapped;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(swapped, 64);
}

TEST_F(Tuned, ATunerThatDiesCostsNoLaunch) {
  order("crash");
  Client client(options());
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kMax});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(2000);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  EXPECT_EQ(b.out[1999], 3.5f);
  EXPECT_EQ(block_of(*fn, b), 4096);
  const auto said = fn->prepare(b.x.data(), b.y.data(), b.out.data(), b.n());
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().message.substr(0, 14), "the tuner died") << said.error().message;
  // The connection has none at the moment, and "cpu" is what the next one says.
  const auto next = client.get(numbered_copy(1), {});
  EXPECT_TRUE(next.ok()) << next.error().message;
  EXPECT_GE(test::figures_of(**client::Connection::open(options().connect))["tuner_deaths_total"], 1);
}

TEST_F(Tuned, WithoutATunerPrepareSaysSo) {
  Client client(options(""));
  auto fn = client.get(kernels::vector_add<>(), {.mode = Mode::kAutotune});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(100);
  const auto said = fn->prepare(b.x.data(), b.y.data(), b.out.data(), b.n());
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().message, "this daemon has no tuner (kiln-tune)");
  EXPECT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
}

}  // namespace
}  // namespace kiln
