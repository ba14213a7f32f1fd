// Handles in the default mode: what the service chooses reaches launches behind them, once for a class of shapes, for
// few configs; and nothing is asked where the caller has chosen.
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
#include "kiln/dsl/size_class.h"
#include "kiln/wire/json.h"
#include "patience.h"
#include "scratch.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;
namespace lang = dsl::lang;

class Chosen : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-chosen-XXXXXX").string();
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
  void order(const std::string& words) {
    ::setenv("KILN_FAKE_TUNER", (words + " log " + (directory_ / "log").string()).c_str(), 1);
  }
  std::string gate() const { return (directory_ / "gate").string(); }
  void open_gate() const { std::ofstream(gate()) << "open"; }
  // What the tuner was asked, in order.
  std::vector<nlohmann::json> questions() const {
    std::vector<nlohmann::json> out;
    std::ifstream file(directory_ / "log");
    for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  ClientOptions options(const std::string& tuner = FAKE_TUNER) const {
    ClientOptions out;
    out.connect.runtime_dir = (directory_ / "run").string();
    out.connect.kilnd_path = KILND_EXECUTABLE;
    out.connect.start_timeout = test::kPatience;
    out.connect.daemon_args = {"--tuner", tuner};
    return out;
  }
  std::filesystem::path directory_;
};

struct Buffers {
  explicit Buffers(int n) : count(n), x(count, 1.5f), y(count, 2), out(count) {}
  int32_t n() const { return static_cast<int32_t>(count); }
  std::array<client::Argument, 4> arguments(int32_t size) {
    return {client::to_argument(x.data()), client::to_argument(y.data()), client::to_argument(out.data()),
            client::to_argument(size)};
  }
  size_t count;
  std::vector<float> x, y, out;
};

template <class Fn>
int64_t block_of(const Fn& fn, Buffers& b, int32_t n) {
  return fn.untyped().config(b.arguments(n))["BLOCK"];
}

// Whether it comes to be while launches go on.
bool comes(const std::function<bool()>& it) {
  for (const auto end = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < end;) {
    if (it()) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

TEST(SizeClass, TwoForEachPowerOfTwoAboveFour) {
  for (uint64_t size : {0, 1, 2, 3, 4}) EXPECT_EQ(dsl::size_class(size), size);
  EXPECT_NE(dsl::size_class(4), dsl::size_class(5));
  EXPECT_EQ(dsl::size_class(5), dsl::size_class(6));
  EXPECT_NE(dsl::size_class(6), dsl::size_class(7));
  EXPECT_EQ(dsl::size_class(7), dsl::size_class(8));
  EXPECT_EQ(dsl::size_class(4097), dsl::size_class(6144));
  EXPECT_EQ(dsl::size_class(6145), dsl::size_class(8192));
  EXPECT_NE(dsl::size_class(6144), dsl::size_class(6145));
  EXPECT_NE(dsl::size_class(8192), dsl::size_class(8193));
  for (uint64_t size = 1; size < 100000; ++size) ASSERT_LE(dsl::size_class(size), dsl::size_class(size + 1)) << size;
  EXPECT_GT(dsl::size_class(UINT64_MAX), dsl::size_class(uint64_t{1} << 63));
}

TEST_F(Chosen, ALaunchTakesTheDefaultAtOnceAndTheChosenConfigBehind) {
  order("chosen BLOCK=512 until " + gate());
  Client client(options());
  auto fn = client.get(kernels::vector_add<>());
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(6000);
  const auto launch = [&](int32_t n) {
    std::fill(b.out.begin(), b.out.end(), 0.0f);
    const auto done = (*fn)(b.x.data(), b.y.data(), b.out.data(), n);
    EXPECT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(std::count(b.out.begin(), b.out.end(), 3.5f), n);
  };
  launch(5000);  // while the tuner answers nobody
  EXPECT_EQ(block_of(*fn, b, 5000), 4096);
  open_gate();
  EXPECT_TRUE(comes([&] { return block_of(*fn, b, 5000) == 512; }));
  launch(5000);
  // Another shape of the class is no question, one of another class is.
  launch(5999);
  EXPECT_EQ(block_of(*fn, b, 5999), 512);
  ASSERT_EQ(questions().size(), 1u);
  EXPECT_EQ(questions()[0]["choose"], true);
  EXPECT_EQ(questions()[0]["scalars"]["n"], 5000);
  EXPECT_EQ(questions()[0]["more"], true);
  launch(700);
  EXPECT_TRUE(comes([&] { return block_of(*fn, b, 700) == 512; }));
  ASSERT_EQ(questions().size(), 2u);
  EXPECT_EQ(questions()[1]["compiled"][0]["BLOCK"], 512);
}

// The launch that asks leaves its variant to the answer: no code is made that nobody runs.
TEST_F(Chosen, NothingIsSpecialisedOfAConfigThatGoes) {
  order("chosen BLOCK=512");
  Client client(options());
  auto fn = client.get(kernels::vector_add<>());
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(4096);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 4096).ok());
  EXPECT_TRUE(comes([&] { return block_of(*fn, b, 4096) == 512; }));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 4096).ok());
  // What another class is answered comes behind all that was begun before.
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), 1024).ok());
  EXPECT_TRUE(comes([&] { return block_of(*fn, b, 1024) == 512; }));
  EXPECT_EQ(fn->untyped().variant_count(), 1u);  // of the default
}

TEST_F(Chosen, OverAThousandShapesFewConfigsAreCompiled) {
  order("vary");
  Client client(options());
  auto many = lang::kernel("many_blocks", {"x", "out", "n", "BLOCK=4096"},
                           [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> out, lang::i32 n, lang::Const BLOCK) {
                             lang::grid(lang::cdiv(n, BLOCK));
                             const lang::Value start = lang::program_id(0) * BLOCK;
                             lang::tile(out, {n}).store({start}, lang::tile(x, {n}).load({start}, {BLOCK}));
                           })
                  .space({{"BLOCK", {64, 128, 256, 512, 1024, 2048, 8192, 16384}}});
  auto fn = client.get(many);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(1 << 20);
  std::set<int64_t> blocks;
  for (int i = 0; i < 1000; ++i) {
    const auto n = static_cast<int32_t>(std::exp2(20.0 * i / 1000));
    ASSERT_TRUE((*fn)(b.x.data(), b.out.data(), n).ok()) << n;
  }
  // The last class has been answered, and so have all before it.
  std::array<client::Argument, 3> last = {client::to_argument(b.x.data()), client::to_argument(b.out.data()),
                                          client::to_argument(int32_t{1 << 20})};
  ASSERT_TRUE(fn->untyped().prepare(last).ok());
  for (int i = 0; i < 1000; ++i) {
    last[2] = client::to_argument(static_cast<int32_t>(std::exp2(20.0 * i / 1000)));
    blocks.insert(fn->untyped().config(last)["BLOCK"]);
  }
  EXPECT_LE(blocks.size(), 6u);
  EXPECT_GE(blocks.size(), 5u);
  const auto asked = questions();
  EXPECT_LE(asked.size(), 43u);  // classes
  for (const auto& question : asked) {
    EXPECT_LE(question["compiled"].size(), 5u);
    EXPECT_EQ(question["more"], question["compiled"].size() < 5);
  }
}

TEST_F(Chosen, NothingIsAskedWhereTheCallerHasChosen) {
  order("chosen BLOCK=512");
  Client client(options());
  Buffers b(5000);
  auto deterministic =
      lang::kernel("deterministic", {"x", "out", "n", "BLOCK=4096"},
                   [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> out, lang::i32 n, lang::Const BLOCK) {
                     lang::grid(lang::cdiv(n, BLOCK));
                     const lang::Value start = lang::program_id(0) * BLOCK;
                     lang::tile(out, {n}).store({start}, lang::tile(x, {n}).load({start}, {BLOCK}));
                   })
          .deterministic()
          .space({{"BLOCK", {512, 4096}}});
  const GetOptions chosen[] = {{.constexprs = {{"BLOCK", 1024}}}, {.mode = Mode::kFixed}};
  for (const GetOptions& given : chosen) {
    auto fn = client.get(kernels::vector_add<>(), given);
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
    ASSERT_TRUE(fn->prepare(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
    EXPECT_EQ(block_of(*fn, b, b.n()), given.constexprs.empty() ? 4096 : 1024);
  }
  auto fn = client.get(deterministic);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  ASSERT_TRUE(fn->prepare(b.x.data(), b.out.data(), b.n()).ok());
  // A client that compiles nothing behind launches does not choose either.
  ClientOptions quiet = options();
  quiet.specialise_in_background = false;
  Client other(quiet);
  auto plain = other.get(kernels::vector_add<>());
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  ASSERT_TRUE((*plain)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  EXPECT_TRUE(questions().empty());
}

// A class is chosen for by one of its shapes; another one may not meet the kernel's conditions with that config.
TEST_F(Chosen, AShapeThatTheConfigIsNotForTakesTheDefault) {
  order("chosen BLOCK=450");
  Client client(options());
  auto bounded =
      lang::kernel("bounded", {"x", "out", "n", "BLOCK=512"},
                   [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> out, lang::i32 n, lang::Const BLOCK) {
                     lang::grid(1);
                     lang::tile(out, {n}).store({0}, lang::tile(x, {n}).load({0}, {BLOCK}));
                   })
          .where("le(n, BLOCK)")
          .space({{"BLOCK", {450, 512}}});
  auto fn = client.get(bounded);
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(512);
  ASSERT_TRUE(fn->prepare(b.x.data(), b.out.data(), 400).ok());
  std::array<client::Argument, 3> arguments = {client::to_argument(b.x.data()), client::to_argument(b.out.data()),
                                               client::to_argument(400)};
  EXPECT_EQ(fn->untyped().config(arguments)["BLOCK"], 450);
  arguments[2] = client::to_argument(500);
  EXPECT_EQ(fn->untyped().config(arguments)["BLOCK"], 512);
  const auto done = (*fn)(b.x.data(), b.out.data(), 500);
  EXPECT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(std::count(b.out.begin(), b.out.end(), 1.5f), 500);
}

TEST_F(Chosen, AnAnswerThatIsWrongKeepsTheDefault) {
  for (const char* words : {"chosen BLOCK=0", "chosen NOTHING=3", "crash"}) {
    order(words);
    {
      Client client(options());
      auto fn = client.get(kernels::vector_add<>());
      ASSERT_TRUE(fn.ok()) << fn.error().message;
      Buffers b(5000);
      const auto done = fn->prepare(b.x.data(), b.y.data(), b.out.data(), b.n());
      EXPECT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(block_of(*fn, b, b.n()), 4096) << words;
      ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
      EXPECT_EQ(b.out[4999], 3.5f);
    }
    if (auto daemon = client::Connection::open(options().connect)) (void)(*daemon)->shutdown();
  }
}

TEST_F(Chosen, WithoutATunerLaunchesAreAsBefore) {
  Client client(options(""));
  auto fn = client.get(kernels::vector_add<>());
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  Buffers b(4096);
  ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), b.n()).ok());
  // Its variant is compiled although the service chooses nothing.
  EXPECT_TRUE(comes([&] { return fn->untyped().variant_count() == 2; }));
  EXPECT_EQ(block_of(*fn, b, b.n()), 4096);
  // Nobody is asked again for a while.
  const auto asked = [&] {
    return test::figures_of(**client::Connection::open(options().connect))["tune_requests_total"];
  };
  const auto before = asked();
  for (int32_t n : {10, 100, 1000, 8}) ASSERT_TRUE((*fn)(b.x.data(), b.y.data(), b.out.data(), n).ok());
  EXPECT_TRUE(comes([&] { return fn->untyped().variant_count() > 2; }));  // of n=8, behind all questions
  EXPECT_EQ(asked(), before);
}

TEST_F(Chosen, OfAGpuTheServiceIsToldWhichItIs) {
  order("chosen BLOCK=512");
  ::setenv("KILN_CUDA_DRIVER", FAKE_CUDA, 1);
  void* fake = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(fake, nullptr);
  reinterpret_cast<void (*)(int)>(::dlsym(fake, "fake_reset"))(1);  // devices
  {
    auto device = Device::open("cuda", 0);
    ASSERT_TRUE(device.ok()) << device.error().message;
    const auto stream = client::Stream::create(*device);
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    Client client(options());
    auto fn = client.get(kernels::vector_add<>(), {.target = "cuda"});
    ASSERT_TRUE(fn.ok()) << fn.error().message;
    Buffers b(3000);
    const auto done = fn->launch({.stream = &*stream}, b.x.data(), b.y.data(), b.out.data(), b.n());
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_TRUE(comes([&] { return block_of(*fn, b, b.n()) == 512; }));
    ASSERT_EQ(questions().size(), 1u);
    EXPECT_EQ(questions()[0]["hardware"], client::hardware_text(device->info()));
    EXPECT_NE(client::hardware_text(device->info()).find("cuda:sm_"), std::string::npos);
  }
  ::dlclose(fake);
  ::unsetenv("KILN_CUDA_DRIVER");
}

}  // namespace
}  // namespace kiln
