// Runs on CPUs whose launches are prepared: right whatever the threads, alignments, variants and sizes, and what fails
// is named.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "caller_mode.h"
#include "graph_service.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

using graph::Tensor;
using testing::ElementsAreArray;
using testing::HasSubstr;

class PreparedRuns : public test::GraphService {
 protected:
  CompiledGraph compiled(const graph::GraphDef& graph, const GraphOptions& how = {.target = "cpu", .fuse = false}) {
    Client client(options());
    auto fn = client.compile(graph, how);
    EXPECT_TRUE(fn) << fn.error().message;
    return fn ? *fn : CompiledGraph();
  }
};

// Small and wide launches after each other: a row of x, then all of it, and so on. Integers: sums are exact.
graph::GraphDef chain(int launches) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  return graph::graph("chain", {graph::input("x", graph::i32, {n, 512}), graph::input("row", graph::i32, {512})},
                      [=](Tensor x, Tensor row) {
                        for (int i = 0; i < launches; ++i) {
                          row = row + 1;
                          if (i % 3 == 2) x = x * 3 + row;
                        }
                        return graph::Tensors{x, row};
                      });
}

void expect_chain(const Result<std::vector<OwnedArray>>& results, std::vector<int32_t> x, std::vector<int32_t> row,
                  int launches) {
  for (int i = 0; i < launches; ++i) {
    for (int32_t& each : row) each += 1;
    if (i % 3 != 2) continue;
    for (size_t k = 0; k < x.size(); ++k) {
      x[k] = static_cast<int32_t>(static_cast<uint32_t>(x[k]) * 3u + static_cast<uint32_t>(row[k % 512]));
    }
  }
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_TRUE(std::ranges::equal((*results)[0].as<int32_t>(), x));
  EXPECT_TRUE(std::ranges::equal((*results)[1].as<int32_t>(), row));
}

std::vector<int32_t> numbers(size_t count, int32_t first) {
  std::vector<int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST_F(PreparedRuns, AreRightForAnyThreadsSizesAndAlignments) {
  const CompiledGraph fn = compiled(chain(12));
  for (const int64_t n : {1, 7, 64, 300}) {
    const auto count = static_cast<size_t>(n) * 512;
    std::vector<int32_t> x = numbers(count + 1, 5), row = numbers(513, -9);
    for (const size_t shift : {0u, 1u}) {  // 16-byte aligned, and not
      for (const int threads : {1, 2, 3, 0}) {
        SCOPED_TRACE(std::to_string(n) + " rows, shift " + std::to_string(shift) + ", threads " +
                     std::to_string(threads));
        auto results = fn({array(x.data() + shift, {n, 512}), array(row.data() + shift, {512})}, {.threads = threads});
        const auto at = static_cast<std::ptrdiff_t>(shift);
        expect_chain(results, {x.begin() + at, x.begin() + at + static_cast<std::ptrdiff_t>(count)},
                     {row.begin() + at, row.begin() + at + 512}, 12);
      }
    }
  }
}

// Variants for sizes and alignments come while it runs; threads run it at once, with teams of their own.
// Quotients, products and functions of numbers that are mostly tiny: small and wide launches, of which no thread rounds
// or flushes as the caller's mode has it.
TEST_F(PreparedRuns, AreInAFloatModeOfTheirOwn) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  const auto tiny =
      graph::graph("tiny", {graph::input("x", graph::f32, {n, 512}), graph::input("row", graph::f32, {512})},
                   [](Tensor x, Tensor row) {
                     row = row / 3.0f + row * row;
                     x = x / 3.0f + row;
                     return graph::Tensors{x * x + x, graph::exp(row) * row};
                   });
  const CompiledGraph fn = compiled(tiny);
  std::vector<float> x(64 * 512), row(512);
  for (size_t i = 0; i < x.size(); ++i) x[i] = (i % 4 == 0 ? 1e-40f : 0.7f) * static_cast<float>(i % 91 + 1);
  for (size_t i = 0; i < row.size(); ++i) row[i] = (i % 3 == 0 ? 3e-39f : 0.3f) * static_cast<float>(i % 7 + 1);
  const std::vector<ArrayView> inputs = {array(x, {64, 512}), array(row, {512})};
  const auto expected = fn(inputs, {.threads = 1});
  ASSERT_TRUE(expected) << expected.error().message;
  for (const test::CallerMode& mode : test::caller_modes()) {
    for (const int threads : {1, 2}) {
      std::vector<std::vector<float>> results;
      const uint64_t left = test::in_mode(mode, [&] {
        const auto run = fn(inputs, {.threads = threads});
        for (size_t i = 0; run && i < run->size(); ++i) {
          const auto each = (*run)[i].as<float>();
          results.emplace_back(each.begin(), each.end());
        }
      });
      ASSERT_EQ(results.size(), 2u);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal((*expected)[i].as<float>(), results[i]))
            << mode.name << ", " << threads << " threads, result " << i;
      }
      EXPECT_EQ(left, test::bits_of_mode(mode)) << mode.name;
    }
  }
}

TEST_F(PreparedRuns, TakeNewVariantsAndRunAtOnce) {
  const CompiledGraph fn = compiled(chain(9));
  std::atomic<bool> done{false};
  std::vector<std::jthread> threads;
  std::atomic<int> runs{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      while (!done || runs < 40) {
        const int64_t n = 1 + (thread * 37 + runs) % 90;
        const std::vector<int32_t> x = numbers(static_cast<size_t>(n) * 512, thread), row = numbers(512, 1);
        expect_chain(fn({array(x, {n, 512}), array(row, {512})}, {.threads = 1 + thread % 3}), x, row, 9);
        ++runs;
      }
    });
  }
  for (const int64_t n : {16, 48, 80}) {
    const std::vector<int32_t> x = numbers(static_cast<size_t>(n) * 512, 0), row = numbers(512, 1);
    auto ready = fn.prepare(std::vector{array(x, {n, 512}), array(row, {512})});
    EXPECT_TRUE(ready) << ready.error().message;
  }
  done = true;
}

TEST_F(PreparedRuns, WorkInTheChildOfAFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer starts no threads in the child of a fork()";
#endif
  const CompiledGraph fn = compiled(chain(6));
  const std::vector<int32_t> x = numbers(64 * 512, 5), row = numbers(512, 2);
  const std::vector<ArrayView> inputs = {array(x, {64, 512}), array(row, {512})};
  auto here = fn(inputs, {.threads = 2});
  expect_chain(here, x, row, 6);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    auto there = fn(inputs, {.threads = 2});
    const bool same = there && std::ranges::equal((*there)[0].as<int32_t>(), (*here)[0].as<int32_t>());
    ::_exit(same ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A tile kernel that checks what it is given, with launches before and behind it that all threads share.
graph::GraphDef checked() {
  using namespace dsl::lang;
  static const auto checking = kernel("check", {"x", "limit", "y", "n", "BLOCK=1024"},
                                      [](Ptr<const i32> x, Ptr<const i32> limit, Ptr<i32> y, i32 n, Const BLOCK) {
                                        grid(cdiv(n, BLOCK));
                                        const Value start = program_id(0) * BLOCK;
                                        const Value values = tile(x, {n}).load({start}, {BLOCK});
                                        check(values < load(limit), "too much");
                                        tile(y, {n}).store({start}, values);
                                      });
  dsl::Kernel debugging = *checking.ir();
  debugging.options.debug = true;
  return graph::graph(
      "checked", {graph::input("x", graph::i32, {1 << 16}), graph::input("limit", graph::i32, {1})},
      [&](Tensor x, Tensor limit) {
        Tensor y = graph::kernel(
            debugging, {graph::KernelArgument::in(x + 1), graph::KernelArgument::in(limit),
                        graph::KernelArgument::out(graph::i32, {1 << 16}), graph::KernelArgument::number(1 << 16)})[0];
        return y * 2;
      });
}

TEST_F(PreparedRuns, NameTheLaunchThatFails) {
  const CompiledGraph fn = compiled(checked());
  const std::vector<int32_t> x = numbers(1 << 16, 0);
  for (const int threads : {1, 2, 0}) {
    const std::vector<int32_t> enough = {1 << 17}, less = {50'000};
    auto fine = fn({array(x, {1 << 16}), array(enough, {1})}, {.threads = threads});
    ASSERT_TRUE(fine) << fine.error().message;
    EXPECT_EQ((*fine)[0].as<int32_t>()[1000], 2002);
    const auto failed = fn({array(x, {1 << 16}), array(less, {1})}, {.threads = threads});
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr("`check`"));
    EXPECT_THAT(failed.error().message, HasSubstr("too much"));
    EXPECT_THAT(failed.error().message, testing::StartsWith("graph `checked`: launch "));
  }
}

// However the moment falls: all of it, or an error that says before which launch.
TEST_F(PreparedRuns, StopBetweenLaunches) {
  const CompiledGraph fn = compiled(chain(60));
  const std::vector<int32_t> x = numbers(256 * 512, 5), row = numbers(512, 2);
  const std::vector<ArrayView> inputs = {array(x, {256, 512}), array(row, {512})};
  int stopped = 0;
  for (int round = 0; round < 60; ++round) {
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
      stop.request_stop();
    });
    auto result = fn(inputs, {.threads = 2, .cancel = stop.get_token()});
    if (result) continue;
    ++stopped;
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
    EXPECT_THAT(result.error().message, testing::StartsWith("graph `chain`: cancelled before launch "));
  }
  EXPECT_GT(stopped, 0);
}

}  // namespace
}  // namespace kiln
