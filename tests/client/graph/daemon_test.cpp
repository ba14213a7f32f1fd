// Graphs through a daemon of this test's own: its plans, their kernels, and what they compute beside the evaluator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "graph_service.h"
#include "kiln/client/graph.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "patience.h"
#include "scratch.h"

namespace kiln {
namespace {

using graph::Array;
using graph::GraphDef;
using test::GraphService;
using testing::HasSubstr;

GraphDef mlp() {
  using namespace graph;
  const Dim batch = dim("batch", 1, 4096);
  return graph::graph("mlp", {input("x", f32, {batch, 24}), input("w", f32, {16, 24}), input("b", f32, {16})},
                      [](Tensor x, Tensor w, Tensor b) { return softmax(gelu(linear(x, w, b)), -1); });
}

// Numbers of a normal distribution.
Array random_array(std::vector<int64_t> shape, uint32_t seed) {
  Array out = graph::own(dsl::ElementType::kF32, std::move(shape));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < out.count(); ++i) {
    graph::set_bits(out, i, dsl::bits_from_double(dsl::ElementType::kF32, normal(random)));
  }
  return out;
}

std::vector<Array> mlp_inputs(int64_t batch) {
  return {random_array({batch, 24}, 1), random_array({16, 24}, 2), random_array({16}, 3)};
}

void expect_as_evaluated(const GraphDef& graph, const std::vector<Array>& inputs, const CompiledGraph& fn) {
  const auto expected = graph::evaluate(*graph.ir(), inputs);
  ASSERT_TRUE(expected) << expected.error().message;
  std::vector<ArrayView> views;
  for (const Array& input : inputs) views.push_back(client::array(input));
  const auto results = fn(views);
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_EQ(results->size(), expected->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    EXPECT_EQ((*results)[i].shape(), (*expected)[i].shape);
    const auto actual = (*results)[i].as<float>();
    ASSERT_EQ(static_cast<int64_t>(actual.size()), (*expected)[i].count());
    for (size_t at = 0; at < actual.size(); ++at) {
      ASSERT_NEAR(actual[at], (*expected)[i].number(static_cast<int64_t>(at)), 1e-5) << "output " << i << " at " << at;
    }
  }
}

// Code is for arrays aligned to 16 bytes; of others it is compiled in the first run that has one, and once.
TEST_F(GraphService, ArraysNeedNotBeAligned) {
  Client client(options());
  const auto fn = client.compile(mlp(), {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  std::vector<Array> inputs = mlp_inputs(5);
  expect_as_evaluated(mlp(), inputs, *fn);
  const uint64_t before = compiles();
  for (Array& input : inputs) {
    const size_t bytes = static_cast<size_t>(input.count()) * sizeof(float);
    auto storage = std::make_shared<std::vector<std::byte>>(bytes + sizeof(float));
    std::memcpy(storage->data() + sizeof(float), input.data, bytes);
    input.data = storage->data() + sizeof(float);
    input.storage = std::move(storage);
  }
  for (int run = 0; run < 3; ++run) expect_as_evaluated(mlp(), inputs, *fn);
  const uint64_t generic = compiles() - before;
  EXPECT_GE(generic, 1u);
  EXPECT_LE(generic, fn->plan().kernels.size());
}

TEST_F(GraphService, OnePlanServesAllSizesAndAllClients) {
  Client client(options());
  auto fn = client.compile(mlp(), {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_EQ(fn->plan().name, "mlp");
  for (const int64_t batch : {1, 2, 3, 17, 64, 333}) expect_as_evaluated(mlp(), mlp_inputs(batch), *fn);
  const uint64_t compiled = compiles();
  EXPECT_EQ(compiled, 1 + fn->plan().kernels.size());

  // A second client compiles nothing, also behind a daemon that has it all on disk.
  Client second(options());
  auto again = second.compile(mlp());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(compiles(), compiled);
  expect_as_evaluated(mlp(), mlp_inputs(5), *again);
  stop_daemon();
  Client third(options());
  again = third.compile(mlp());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(compiles(), 0u);
  expect_as_evaluated(mlp(), mlp_inputs(5), *again);
}

TEST_F(GraphService, HandlesOutliveTheirClient) {
  std::optional<CompiledGraph> fn;
  {
    Client client(options());
    auto compiled = client.compile(mlp());
    ASSERT_TRUE(compiled) << compiled.error().message;
    fn = *compiled;
  }
  stop_daemon();
  expect_as_evaluated(mlp(), mlp_inputs(7), *fn);
}

// Also with an arena and sizes that the parent has met, and with threads of OpenMP that are in the parent alone.
TEST_F(GraphService, HandlesRunInTheChildOfAFork) {
  Client client(options());
  auto fn = client.compile(mlp());
  ASSERT_TRUE(fn) << fn.error().message;
  const std::vector<Array> inputs = mlp_inputs(64);
  std::vector<ArrayView> views;
  for (const Array& input : inputs) views.push_back(client::array(input));
  auto before = (*fn)(views);
  ASSERT_TRUE(before) << before.error().message;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto mine = (*fn)(views);
    ::_exit(mine && std::ranges::equal((*mine)[0].as<float>(), (*before)[0].as<float>()) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_as_evaluated(mlp(), inputs, *fn);
}

TEST_F(GraphService, ClientsAtOnceShareEachCompile) {
  ASSERT_NE(daemon(), nullptr);
  std::vector<std::jthread> threads;
  std::vector<CompiledGraph> handles(6);
  for (CompiledGraph& handle : handles) {
    threads.emplace_back([&] {
      Client client(options());
      auto fn = client.compile(mlp());
      ASSERT_TRUE(fn) << fn.error().message;
      handle = *fn;
    });
  }
  threads.clear();
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(compiles(), 1 + handles[0].plan().kernels.size());
  for (const CompiledGraph& handle : handles) expect_as_evaluated(mlp(), mlp_inputs(9), handle);
}

// Kernels that are gone from the cache, all or some, are compiled again.
TEST_F(GraphService, KernelsGoneFromTheCacheAreCompiledAgain) {
  Client client(options());
  auto fn = client.compile(mlp(), {.fuse = false});
  ASSERT_TRUE(fn) << fn.error().message;
  const std::vector<std::filesystem::path> entries = entries_of(fn->plan());
  ASSERT_GE(entries.size(), 2u);
  for (const size_t kept : {size_t{1}, size_t{0}}) {
    stop_daemon();
    size_t gone = 0;
    for (size_t i = kept; i < entries.size(); ++i) gone += std::filesystem::remove(entries[i]);
    ASSERT_GE(gone, 1u);
    Client next(options());
    fn = next.compile(mlp(), {.fuse = false});
    ASSERT_TRUE(fn) << fn.error().message;
    EXPECT_EQ(compiles(), gone);
    expect_as_evaluated(mlp(), mlp_inputs(4), *fn);
  }
}

TEST_F(GraphService, FusedAndNotAreDifferentRequests) {
  Client client(options());
  auto fused = client.compile(mlp()), alone = client.compile(mlp(), {.fuse = false});
  ASSERT_TRUE(fused) << fused.error().message;
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_LT(fused->plan().launches.size(), alone->plan().launches.size());
  expect_as_evaluated(mlp(), mlp_inputs(8), *alone);
}

TEST_F(GraphService, TheInterpreterNeedsThePlanAlone) {
  Client client(options());
  auto fn = client.compile(mlp(), {.target = "interp"});
  ASSERT_TRUE(fn) << fn.error().message;
  EXPECT_EQ(compiles(), 1u);
  expect_as_evaluated(mlp(), mlp_inputs(3), *fn);
}

TEST_F(GraphService, DeadlinesAndCancellationAreErrors) {
  Client client(options());
  ASSERT_TRUE(client.compile(mlp(), {.target = "interp"}));  // the daemon is there
  auto fn = client.compile(mlp(), {.deadline_ms = 1});
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().code, ErrorCode::kDeadlineExceeded) << fn.error().message;
  EXPECT_THAT(fn.error().message, HasSubstr("graph `mlp`: "));
  std::stop_source stop;
  stop.request_stop();
  fn = client.compile(mlp(), {.cancel = stop.get_token()});
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().code, ErrorCode::kCancelled) << fn.error().message;

  std::stop_source later;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    later.request_stop();
  });
  fn = client.compile(mlp(), {.fuse = false, .cancel = later.get_token()});
  if (!fn) {
    EXPECT_EQ(fn.error().code, ErrorCode::kCancelled) << fn.error().message;
  }
  fn = client.compile(mlp());
  ASSERT_TRUE(fn) << fn.error().message;
  expect_as_evaluated(mlp(), mlp_inputs(3), *fn);
}

TEST_F(GraphService, WrongRequestsAreRefused) {
  Client client(options());
  auto fn = client.compile(mlp(), {.target = "abacus"});
  ASSERT_FALSE(fn);
  EXPECT_THAT(fn.error().message, HasSubstr("graph `mlp`: unknown target `abacus`"));
  fn = client.compile(mlp(), {.target = "cpu:no-such-processor"});
  ASSERT_FALSE(fn);
  EXPECT_THAT(fn.error().message, HasSubstr("no-such-processor"));
  const GraphDef wrong = graph::graph("wrong", {graph::input("x", dsl::ElementType::kF32, {3})},
                                      [](graph::Tensor x) { return reshape(x, {4}); });
  fn = client.compile(wrong);
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().message, wrong.ir().error().message);
}

TEST_F(GraphService, WithoutADaemonItIsAnError) {
  ClientOptions nowhere = options();
  nowhere.connect.autostart = nowhere.connect.allow_pipe = false;
  Client client(nowhere);
  auto fn = client.compile(mlp());
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().code, ErrorCode::kUnavailable) << fn.error().message;
}

}  // namespace
}  // namespace kiln
