// Graphs with a mode: what the tuner says reaches runs, whole, with the default's bits, and only when it was waited for
// or has come.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <stop_token>
#include <thread>

#include "graph/random_graph.h"
#include "graph_service.h"
#include "kiln/graph/control.h"
#include "sampled.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;
using graph::f32;
using graph::input;
using graph::Tensor;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kWidth = 64;

// Two products of equal kernels, with what is computed on them, and a map of their own.
graph::GraphDef layers() {
  const graph::Dim n = graph::dim("n", 1, 4096);
  return graph::graph(
      "layers", {input("x", f32, {n, kWidth}), input("w", f32, {kWidth, kWidth}), input("v", f32, {kWidth, kWidth})},
      [](Tensor x, Tensor w, Tensor v) { return graph::Tensors{relu(linear(relu(linear(x, w)), v)), exp(x) * 0.5}; });
}

class TunedGraphs : public test::GraphService {
 protected:
  void TearDown() override {
    ::unsetenv("KILN_FAKE_TUNER");
    GraphService::TearDown();
  }
  // Before the daemon starts, whose environment is the tuner's.
  void order(const std::string& words) const { ::setenv("KILN_FAKE_TUNER", (words + " log " + log_path()).c_str(), 1); }
  std::string log_path() const { return (directory_ / "log").string(); }
  // With "until" of this, tuning ends when the test says so.
  std::string gate() const { return (directory_ / "gate").string(); }
  void open_gate() const { std::ofstream(gate()) << "open"; }
  // A line a request.
  std::string log() const {
    std::ifstream file(log_path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t requests() const { return static_cast<size_t>(std::ranges::count(log(), '\n')); }
  ClientOptions options(const std::string& tuner = FAKE_TUNER) const {
    ClientOptions out = GraphService::options();
    out.connect.daemon_args = {"--tuner", tuner};
    return out;
  }

  static CompiledGraph compiled(Client& client, const graph::GraphDef& graph, const GraphOptions& how) {
    auto fn = client.compile(graph, how);
    EXPECT_TRUE(fn) << fn.error().message;
    return fn ? *fn : CompiledGraph();
  }
};

// A graph's inputs for a size, and what the defaults make of them.
class Numbers {
 public:
  Numbers(const graph::GraphDef& graph, std::map<std::string, int64_t> sizes)
      : arrays_(random_graph::inputs(random_graph::Case{*graph.ir(), std::move(sizes)}, 3)) {
    for (const graph::Array& each : arrays_) views_.push_back(client::array(each));
  }

  const std::vector<ArrayView>& views() const { return views_; }
  void expect(const CompiledGraph& fn) {
    auto results = fn(views_);
    ASSERT_TRUE(results) << results.error().message;
    expected_ = std::move(*results);
  }
  bool gives_the_same(const CompiledGraph& fn, const RunOptions& options = {}) const {
    return differing(fn, options).empty();
  }
  // The outputs that have other bits.
  std::string differing(const CompiledGraph& fn, const RunOptions& options = {}) const {
    const auto results = fn(views_, options);
    if (!results) return results.error().message;
    std::string out;
    for (size_t i = 0; i < expected_.size(); ++i) {
      const OwnedArray &a = (*results)[i], &b = expected_[i];
      if (a.bytes() != b.bytes() || std::memcmp(a.data(), b.data(), a.bytes()) != 0) out += " " + std::to_string(i);
    }
    return out;
  }

 private:
  std::vector<graph::Array> arrays_;
  std::vector<ArrayView> views_;
  std::vector<OwnedArray> expected_;
};

TEST_F(TunedGraphs, ModeMaxAsksOnceForEachKernelBeforeTheFirstRun) {
  order("config BM=32 config COLS=256 delay 20");
  Client client(options());
  Numbers numbers(layers(), {{"n", 100}});
  numbers.expect(compiled(client, layers(), {}));
  EXPECT_EQ(requests(), 0u);

  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kMax, .tune_budget_ms = 1234});
  EXPECT_EQ(fn.plan().launches.size(), 3u);
  ASSERT_EQ(fn.plan().kernels.size(), 2u);  // the products are one
  EXPECT_THAT(fn.explain(), Not(HasSubstr("tuned:")));
  for (int run = 0; run < 3; ++run) EXPECT_TRUE(numbers.gives_the_same(fn));
  EXPECT_EQ(requests(), 2u);
  EXPECT_THAT(log(), HasSubstr("\"budget_ms\":1234"));
  EXPECT_THAT(fn.explain(), HasSubstr("BM=32 in place of 128"));
  EXPECT_THAT(fn.explain(), HasSubstr("COLS=256 in place of 1024"));

  // Other sizes are another question.
  const Numbers others(layers(), {{"n", 17}});
  ASSERT_TRUE(fn.prepare(others.views()));
  EXPECT_EQ(requests(), 4u);
  ASSERT_TRUE(fn(others.views()));
  EXPECT_EQ(requests(), 4u);
}

TEST_F(TunedGraphs, ModeAutotuneBeginsWithDefaultsAndChangesBehindRuns) {
  order("config BM=32 config COLS=256 until " + gate());
  Client client(options());
  Numbers numbers(layers(), {{"n", 100}});
  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kAutotune});
  numbers.expect(fn);
  EXPECT_THAT(fn.explain(), Not(HasSubstr("tuned:")));
  open_gate();
  const auto is_tuned = [&] {
    const std::string text = fn.explain();
    return text.find("BM=32") != text.npos && text.find("COLS=256") != text.npos;
  };
  for (const auto end = std::chrono::steady_clock::now() + 60s; !is_tuned();) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    EXPECT_TRUE(numbers.gives_the_same(fn));
  }
  EXPECT_TRUE(numbers.gives_the_same(fn));
}

TEST_F(TunedGraphs, ConfigsChangeUnderThreadsThatRun) {
  order("config BM=32 config COLS=256 delay 50");
  Client client(options());
  Numbers numbers(layers(), {{"n", 64}});
  numbers.expect(compiled(client, layers(), {}));
  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kAutotune});
  std::atomic<int> wrong = 0, after = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto end = std::chrono::steady_clock::now() + 60s;
      for (int mine = 0; mine < 20 && std::chrono::steady_clock::now() < end;) {
        if (!numbers.gives_the_same(fn, {.threads = 1 + t % 2})) ++wrong;
        const std::string text = fn.explain();
        if (text.find("BM=32") == text.npos || text.find("COLS=256") == text.npos) continue;
        ++mine;
        ++after;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after, 80);
}

TEST_F(TunedGraphs, ATunerThatFailsLeavesTheDefaults) {
  for (const bool is_there : {true, false}) {
    order("crash");
    Client client(options(is_there ? FAKE_TUNER : ""));
    Numbers numbers(layers(), {{"n", 30}});
    numbers.expect(compiled(client, layers(), {}));
    for (const Mode mode : {Mode::kAutotune, Mode::kMax}) {
      const CompiledGraph fn = compiled(client, layers(), {.mode = mode});
      EXPECT_TRUE(numbers.gives_the_same(fn));
      const auto ready = fn.prepare(numbers.views());
      EXPECT_TRUE(ready) << ready.error().message;
      EXPECT_TRUE(numbers.gives_the_same(fn));
      EXPECT_THAT(fn.explain(), Not(HasSubstr("tuned:")));
    }
    stop_daemon();
  }
}

// What nobody waited for comes later.
TEST_F(TunedGraphs, ARunWaitsNoLongerThanItMay) {
  order("config BM=32 until " + gate());
  Client client(options());
  Numbers numbers(layers(), {{"n", 100}});
  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kMax, .tune_wait_ms = 100});
  numbers.expect(fn);
  EXPECT_THAT(fn.explain(), Not(HasSubstr("tuned:")));
  open_gate();
  for (const auto end = std::chrono::steady_clock::now() + 60s; fn.explain().find("BM=32") == std::string::npos;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(numbers.gives_the_same(fn));
}

TEST_F(TunedGraphs, ARunThatWaitsForTheTunerIsCancelled) {
  order("config BM=32 until " + gate());
  Client client(options());
  Numbers numbers(layers(), {{"n", 100}});
  numbers.expect(compiled(client, layers(), {}));
  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kMax});
  std::stop_source stop;
  std::jthread stopping([&] {
    while (requests() == 0) std::this_thread::sleep_for(1ms);
    stop.request_stop();
  });
  const auto cancelled = fn(numbers.views(), {.cancel = stop.get_token()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(cancelled.error().message, "graph `layers`: cancelled while its kernels were tuned");
  open_gate();
  EXPECT_TRUE(numbers.gives_the_same(fn));
  EXPECT_THAT(fn.explain(), HasSubstr("BM=32"));
}

TEST_F(TunedGraphs, ARunThatIsCancelledCancelsNoOther) {
  order("config BM=32 until " + gate());
  Client client(options());
  Numbers numbers(layers(), {{"n", 100}});
  numbers.expect(compiled(client, layers(), {}));
  const CompiledGraph fn = compiled(client, layers(), {.mode = Mode::kMax});
  std::stop_source stop;
  std::jthread cancelled([&] { EXPECT_FALSE(fn(numbers.views(), {.cancel = stop.get_token()})); });
  while (requests() == 0) std::this_thread::sleep_for(1ms);
  std::jthread other([&] {
    EXPECT_EQ(numbers.differing(fn), "");
    EXPECT_THAT(fn.explain(), HasSubstr("BM=32"));
  });
  std::this_thread::sleep_for(50ms);
  stop.request_stop();
  cancelled.join();
  open_gate();
}

// By the tuner itself, whose runner only says that it measured: what one client had tuned is in the records, and the
// next one has nothing measured.
TEST_F(TunedGraphs, RecordsServeTheNextClient) {
  const std::string measured = (directory_ / "measured").string();
  const std::map<std::string, std::string> variables = {{"KILN_TUNE_DB", (directory_ / "tune.sqlite").string()},
                                                        {"KILN_RUNNER", FAKE_RUNNER},
                                                        {"KILN_FAKE_RUNNER_LOG", measured}};
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  const auto launches = [&] {
    std::ifstream log(measured);
    return std::count(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>(), '\n');
  };
  // Of small spaces, which are searched to their end.
  const auto rows = graph::graph("rows", {input("x", f32, {40, 300}), input("w", f32, {5000})},
                                 [](Tensor x, Tensor w) { return graph::Tensors{softmax(x), exp(w) * 0.5}; });
  Numbers numbers(rows, {});
  std::ptrdiff_t known = 0;
  for (const bool is_first : {true, false}) {
    Client client(GraphService::options());
    numbers.expect(compiled(client, rows, {}));
    EXPECT_EQ(launches(), known);
    const CompiledGraph fn = compiled(client, rows, {.mode = Mode::kMax});
    EXPECT_EQ(numbers.differing(fn), "");
    EXPECT_EQ(test::figures_of(*daemon()).at("tune_requests_total").get<int>(), 2);
    if (is_first) {
      known = launches();
      EXPECT_GE(known, 2);
    } else {
      EXPECT_EQ(launches(), known);
    }
    stop_daemon();
  }
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
}

// Its launches have no arguments that could be asked for.
TEST_F(TunedGraphs, ALoopThatRunsNoPassIsNotTuned) {
  const graph::Dim n = graph::dim("n", 0, 100);
  const auto backwards = graph::graph("backwards", {input("xs", f32, {n, 500})}, [=](Tensor xs) {
    const graph::LoopStep sums = graph::loop(n, {graph::zeros(f32, {500})}, {xs},
                                             [](graph::Tensors carried, graph::Tensors slices) {
                                               const Tensor next = carried[0] * 0.5 + slices[0];
                                               return graph::LoopStep{{next}, {next}};
                                             },
                                             {.reverse = true});
    return graph::Tensors{sums.carried[0], sums.stacked[0]};
  });
  ASSERT_TRUE(backwards.ir()) << backwards.ir().error().message;
  order("config COLS=256");
  Client client(options());
  for (const int64_t passes : {0, 3}) {
    SCOPED_TRACE(passes);
    Numbers numbers(backwards, {{"n", passes}});
    numbers.expect(compiled(client, backwards, {}));
    const CompiledGraph fn = compiled(client, backwards, {.mode = Mode::kMax});
    EXPECT_EQ(numbers.differing(fn), "");
    const auto ready = fn.prepare(numbers.views());
    EXPECT_TRUE(ready) << ready.error().message;
  }
}

// What runs once, while inputs are bound, is not worth a search.
TEST_F(TunedGraphs, LaunchesOfABindingAreNotTuned) {
  order("config COLS=256");
  const auto scaled = graph::graph("scaled", {input("x", f32, {256}), input("w", f32, {4096})},
                                   [](Tensor x, Tensor w) { return x + sum(exp(w) * 0.5); });
  Client client(options());
  const Numbers numbers(scaled, {});
  const CompiledGraph fn = compiled(client, scaled, {.mode = Mode::kMax});
  const auto bound = fn.bind({{"w", numbers.views()[1]}});
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(requests(), 0u);
  ASSERT_TRUE((*bound)({numbers.views()[0]}));
  EXPECT_EQ(requests(), bound->plan().launches.size());
}

// Attention, norms and products of which not all extents come out even.
graph::GraphDef encoder() {
  const graph::Dim n = graph::dim("n", 1, 64);
  constexpr int64_t kHeads = 2, kHead = 24, kWide = kHeads * kHead, kPlaces = 70, kInner = 300;
  const auto heads = [=](const Tensor& x) { return permute(reshape(x, {n, kPlaces, kHeads, kHead}), {0, 2, 1, 3}); };
  return graph::graph(
      "encoder",
      {input("x", f32, {n, kPlaces, kWide}), input("qkv", f32, {3 * kWide, kWide}), input("up", f32, {kInner, kWide}),
       input("down", f32, {kWide, kInner}), input("norm", f32, {kWide})},
      [=](graph::Tensors in) {
        const Tensor qkv = linear(in[0], in[1]);
        const auto part = [&](int64_t i) { return heads(slice(qkv, 2, i * kWide, (i + 1) * kWide)); };
        const Tensor scores = matmul(part(0), transpose(part(1))) * 0.25;
        const Tensor seen = reshape(permute(matmul(softmax(scores), part(2)), {0, 2, 1, 3}), {n, kPlaces, kWide});
        const Tensor y = layer_norm(in[0] + seen, in[4]);
        return graph::Tensors{layer_norm(y + linear(gelu(linear(y, in[2])), in[3]), in[4]), sum(exp(qkv), {0})};
      });
}

// Products of one row, of one column, and of bf16.
graph::GraphDef products() {
  return graph::graph("products",
                      {input("row", f32, {1, 300}), input("x", f32, {50, 300}), input("w", f32, {210, 300}),
                       input("v", f32, {300}), input("h", graph::bf16, {50, 300}), input("u", graph::bf16, {210, 300})},
                      [](graph::Tensors in) {
                        return graph::Tensors{linear(in[0], in[2]), matmul(in[1], in[3]), linear(in[4], in[5]),
                                              matmul(in[2], in[3])};
                      });
}

TEST_F(TunedGraphs, ConfigsGiveTheBitsOfTheDefault) {
  for (const graph::GraphDef& graph : {encoder(), products()}) {
    ASSERT_TRUE(graph.ir()) << graph.ir().error().message;
    Numbers numbers(graph, {{"n", 3}});
    std::vector<const char*> configs = test::sampled(
        std::vector<const char*>{"config BM=8 config BN=32 config GROUP=1", "config BM=32 config BK=16",
                                 "config BM=512 config BN=1024", "config BK=64", "config BK=512 config BN=4096",
                                 "config ROWS=1", "config ROWS=4", "config COLS=64", "config COLS=512 config ROWS=2"},
        5);
    configs.insert(configs.begin(), "");
    for (const char* words : configs) {
      SCOPED_TRACE(words);
      order(words);
      {
        Client client(options());
        const CompiledGraph fn = compiled(client, graph, {.mode = *words == 0 ? Mode::kDefault : Mode::kMax});
        if (*words == 0) {
          numbers.expect(fn);
        } else {
          EXPECT_EQ(numbers.differing(fn), "");
          EXPECT_EQ(numbers.differing(fn, {.threads = 1}), "");
        }
      }
      stop_daemon();
    }
  }
}

}  // namespace
}  // namespace kiln
