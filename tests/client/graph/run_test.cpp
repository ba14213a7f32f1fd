// Running a plan: sizes, memory, inputs and results, by the interpreter and a plan by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "loaded_plan.h"

namespace kiln {
namespace {

using graph::Plan;
using planned::hand_plan;
using test::loaded;
using test::numbers;
using testing::ElementsAreArray;
using testing::HasSubstr;

// What the plan computes (hand_plan.h).
struct Expected {
  std::vector<float> y, next, last;
  Expected(const std::vector<float>& x, const std::vector<float>& state, size_t m) {
    for (size_t i = 0; i < x.size(); ++i) {
      next.push_back(state[i] + 2 * x[i]);
      y.push_back(2 * x[i] + next[i]);
    }
    last.assign(y.end() - static_cast<std::ptrdiff_t>(m), y.end());
  }
};

void expect_results(const std::vector<OwnedArray>& results, const Expected& expected) {
  ASSERT_EQ(results.size(), 3u);
  EXPECT_THAT(results[0].as<float>(), ElementsAreArray(expected.y));
  EXPECT_THAT(results[1].as<float>(), ElementsAreArray(expected.next));
  EXPECT_THAT(results[2].as<float>(), ElementsAreArray(expected.last));
}

std::string failure(const Result<std::vector<OwnedArray>>& result) {
  EXPECT_FALSE(result);
  return result ? std::string() : result.error().message;
}

// One plan for all sizes, odd ones among them.
TEST(RunGraph, GivesResultsOfEachSize) {
  const CompiledGraph fn = loaded();
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{{3, 8}, {1, 4}, {7, 12}, {100, 64}, {3, 8}}) {
    const auto count = static_cast<size_t>(n * m);
    const std::vector<float> x = numbers(count, 1), state = numbers(count, -5);
    auto results = fn({array(x, {n, m}), array(state, {n, m})});
    ASSERT_TRUE(results) << results.error().message;
    expect_results(*results, Expected(x, state, static_cast<size_t>(m)));
    EXPECT_EQ((*results)[0].shape(), (std::vector<int64_t>{n, m}));
    EXPECT_EQ((*results)[2].shape(), (std::vector<int64_t>{m}));
    EXPECT_EQ((*results)[2].bytes(), static_cast<uint64_t>(4 * m));
    EXPECT_TRUE((*results)[0].as<double>().empty());
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*results)[0].data()) % 64, 0u);
  }
}

TEST(RunGraph, StridedAndUnalignedInputsAreCopied) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1), state = numbers(12, 7);
  std::vector<float> transposed(12), spread(40, -1);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 4; ++column) {
      transposed[column * 3 + row] = x[row * 4 + column];
      spread[39 - row * 12 - column * 2] = state[row * 4 + column];  // both axes the other way round, with gaps
    }
  }
  auto results = fn({array(transposed.data(), {3, 4}, {1, 3}), array(spread.data() + 39, {3, 4}, {-12, -2})});
  ASSERT_TRUE(results) << results.error().message;
  expect_results(*results, Expected(x, state, 4));

  std::vector<std::byte> bytes(sizeof(float) * 12 + 1);
  std::memcpy(bytes.data() + 1, x.data(), sizeof(float) * 12);
  ArrayView unaligned = array(x, {3, 4});
  unaligned.data = bytes.data() + 1;
  results = fn({unaligned, array(state, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  expect_results(*results, Expected(x, state, 4));

  // A row for all of them.
  results = fn({array(x.data(), {3, 4}, {0, 1}), array(state, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  std::vector<float> repeated;
  for (int row = 0; row < 3; ++row) repeated.insert(repeated.end(), x.begin(), x.begin() + 4);
  expect_results(*results, Expected(repeated, state, 4));
}

TEST(RunGraph, DonatedInputsGiveTheirMemory) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1);
  std::vector<float> state = numbers(12, 7);
  const Expected once(x, state, 4);
  auto results = fn({array(x, {3, 4}), donated(state, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  expect_results(*results, once);
  EXPECT_EQ((*results)[1].data(), state.data());
  EXPECT_EQ(state, once.next);

  // A state of runs' own, from one to the next; it outlives the results that it came with.
  OwnedArray own = (*fn({array(x, {3, 4}), array(state, {3, 4})}))[1];
  EXPECT_NE(own.data(), state.data());
  std::vector<float> now = Expected(x, state, 4).next;
  for (int step = 0; step < 3; ++step) {
    auto next = fn({array(x, {3, 4}), own.donate()});
    ASSERT_TRUE(next) << next.error().message;
    now = Expected(x, now, 4).next;
    EXPECT_EQ((*next)[1].data(), own.data());
    own = (*next)[1];
    EXPECT_THAT(own.as<float>(), ElementsAreArray(now));
  }
}

// Where sharing would be wrong, or is not wanted, the input stays as it is.
TEST(RunGraph, InputsAreNotWrittenToOtherwise) {
  const CompiledGraph fn = loaded();
  std::vector<float> x = numbers(24, 1);
  const std::vector<float> before = x;
  const std::vector<float> first(x.begin(), x.begin() + 12), second(x.begin() + 4, x.begin() + 16);
  auto results = fn({array(x.data(), {3, 4}), donated(x.data() + 4, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  expect_results(*results, Expected(first, second, 4));
  EXPECT_EQ(x, before);

  ArrayView turned = donated(x.data(), {3, 4});
  turned.strides = {1, 3};
  results = fn({array(first, {3, 4}), turned});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(x, before);
}

TEST(RunGraph, ResultsGoIntoArraysOfTheCallers) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1);
  std::vector<float> state = numbers(12, 7), y(12), next(12), last(4);
  const Expected expected(x, state, 4);
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  const std::vector<ArrayView> outputs = {donated(y, {3, 4}), donated(next, {3, 4}), donated(last, {4})};
  auto done = fn.run_into(inputs, outputs);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(y, expected.y);
  EXPECT_EQ(next, expected.next);
  EXPECT_EQ(last, expected.last);

  // In place of the input that is donated to it.
  done = fn.run_into(inputs, std::vector<ArrayView>{outputs[0], donated(state, {3, 4}), outputs[2]});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(state, expected.next);
  EXPECT_EQ(y, expected.y);
}

TEST(RunGraph, RefusesArraysForResultsThatDoNotFit) {
  const CompiledGraph fn = loaded();
  std::vector<float> x = numbers(12, 1), state = numbers(12, 7), y(12), next(12), last(4);
  const std::vector<float> constant(12);
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  const ArrayView good_y = donated(y, {3, 4}), good_next = donated(next, {3, 4}), good_last = donated(last, {4});
  const auto says = [&](const ArrayView& a, const ArrayView& b, const ArrayView& c) {
    auto done = fn.run_into(inputs, std::vector<ArrayView>{a, b, c});
    EXPECT_FALSE(done);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(says(donated(y, {4, 3}), good_next, good_last),
            "output `y` is f32[3, 4] for these inputs, and its array is f32[4, 3]");
  EXPECT_EQ(says(array(constant, {3, 4}), good_next, good_last), "output `y`: its array is read only");
  EXPECT_EQ(says(good_y, good_y, good_last), "output `next` overlaps output `y`");
  EXPECT_EQ(says(good_y, good_next, donated(x.data() + 8, {4})),
            "output `last` overlaps input `x`, which is not donated to it");
  EXPECT_EQ(says(donated(state, {3, 4}), good_next, good_last),
            "output `y` overlaps input `state`, which is not donated to it");
  EXPECT_EQ(says(good_y, good_next, donated(static_cast<float*>(nullptr), {4})),
            "output `last` is f32[4], but its data are null");
  EXPECT_EQ(says(good_y, good_next, donated(last, {8})),
            "output `last` is f32[4] for these inputs, and its array is f32[8]");
  EXPECT_EQ(fn.run_into(inputs, {}).error().message, "graph `by_hand` has 3 outputs, not 0");
}

TEST(RunGraph, ErrorsNameTheInputAndWhatIsDeclared) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x(24);
  const std::vector<double> wide(12);
  const ArrayView good = array(x.data(), {3, 4});
  EXPECT_EQ(failure(fn({good})), "graph `by_hand` takes 2 inputs, not 1");
  EXPECT_EQ(failure(fn({})), "graph `by_hand` takes 2 inputs, not 0");
  EXPECT_EQ(failure(fn({good, array(wide, {3, 4})})), "input `state` is f64[3, 4]; the graph declares f32[n, m]");
  EXPECT_EQ(failure(fn({good, array(x.data(), {12})})), "input `state` is f32[12]; the graph declares f32[n, m]");
  EXPECT_EQ(failure(fn({good, array(x.data(), {4, 4})})),
            "input `state` is f32[4, 4]; the graph declares f32[n, m]: axis 0 is 4, not 3, where n is 3 by axis 0 of "
            "input `x`");
  EXPECT_EQ(failure(fn({array(x.data(), {101, 4}), good})),
            "input `state` is f32[3, 4]; the graph declares f32[n, m]: axis 0 is 3, not 101, where n is 101 by axis 0 "
            "of input `x`");
  EXPECT_EQ(failure(fn({array(x.data(), {4, 6}), array(x.data(), {4, 6})})),
            "m is 6 by axis 1 of input `x`; the graph is for multiples of 4");
  EXPECT_EQ(failure(fn({good, array(std::vector<float>(11), {3, 4})})),
            "input `state` is f32[3, 4], which takes 48 bytes; there are 44");
  EXPECT_EQ(failure(fn({good, array(static_cast<const float*>(nullptr), {3, 4})})),
            "input `state` is f32[3, 4], but its data are null");
  EXPECT_EQ(failure(fn({good, array(x.data(), {3, 4}, {1})})), "input `state` has 1 strides for the shape f32[3, 4]");
  EXPECT_EQ(failure(fn({good, good}, {.sizes = {{"k", 3}}})), "graph `by_hand` has no dim `k`");
  EXPECT_EQ(failure(CompiledGraph()({good})), "run of an empty handle of a graph");
}

TEST(RunGraph, SizesThatNoInputSaysAreGiven) {
  Plan plan = hand_plan();
  plan.dims.push_back({"k", 1, 8, 1});
  plan.launches.back().arguments[3].scalar = graph::Expr::constexpr_ref(2);  // so many elements of `last`
  const CompiledGraph fn = loaded(plan);
  const std::vector<float> x = numbers(12, 1), state = numbers(12, 7);
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  EXPECT_EQ(failure(fn(inputs)), "graph `by_hand`: no input says what the dim `k` is, and it was not given");
  EXPECT_EQ(failure(fn(inputs, {.sizes = {{"k", 9}}})), "k is 9 by what was given; the graph is for 1 … 8");
  const Expected expected(x, state, 4);
  for (const int64_t k : {4, 2, 4}) {  // one after the other: what is kept of sizes tells them apart
    auto results = fn(inputs, {.sizes = {{"k", k}}});
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_TRUE(std::equal(expected.last.begin(), expected.last.begin() + k, (*results)[2].as<float>().begin()));
  }
}

TEST(RunGraph, MemoryIsKnownAndLimitedBeforeARun) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1), state = numbers(12, 7);
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  const auto memory = fn.memory(inputs);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->arena, 128u);
  EXPECT_EQ(memory->results, 48u + 48 + 16);
  EXPECT_TRUE(fn(inputs, {.memory_limit = 128 + 112}));
  const auto less = fn(inputs, {.memory_limit = 128 + 111});
  ASSERT_FALSE(less);
  EXPECT_EQ(less.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(
      less.error().message,
      "graph `by_hand` needs 240 bytes: 128 of arena, 112 of results, 0 of copies of inputs; the limit is 239; the "
      "arena is fullest at launch 2, `add` (model.cpp:5:9), by 48 bytes of launch 0, `scale` (model.cpp:3:9); 48 "
      "bytes of launch 2, `add` (model.cpp:5:9)");
  const std::vector<ArrayView> turned = {array(x.data(), {3, 4}, {1, 3}), inputs[1]};
  EXPECT_THAT(failure(fn(turned, {.memory_limit = 240})), HasSubstr("needs 288 bytes"));
}

TEST(RunGraph, DrawsTheArenaOverItsLaunches) {
  const CompiledGraph fn = loaded();
  const auto text = fn.memory_timeline({{"n", 3}, {"m", 4}});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text,
            "graph by_hand: arena of 128 bytes for 2 values; 112 bytes of results\n"
            "most at launch 2, `add` (model.cpp:5:9): 128 bytes live\n"
            "  48 bytes of launch 0, `scale` (model.cpp:3:9)\n"
            "  48 bytes of launch 2, `add` (model.cpp:5:9)\n"
            "\n"
            "        offset         bytes         (a column a launch)\n"
            "                        most    v\n"
            "             0            48  ###..  launch 0, `scale` (model.cpp:3:9)\n"
            "            64            48  ..###  launch 2, `add` (model.cpp:5:9)\n");
  const auto unknown = fn.memory_timeline({{"n", 3}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "input `x`: the sizes of its dims are not all given");
  EXPECT_FALSE(fn.memory_timeline({{"n", 3}, {"m", 5}}));
}

// A failure in a launch names it and its place.
TEST(RunGraph, FailingLaunchesAreNamed) {
  Plan plan = hand_plan();
  plan.launches[2].arguments[3].scalar = plan.launches[2].arguments[3].scalar + 1;  // beyond the end
  plan.arena_bytes = plan.arena_bytes + 64;
  const CompiledGraph fn = loaded(plan);
  const std::vector<float> x(16), state(16);
  const std::string message = failure(fn({array(x, {4, 4}), array(state, {4, 4})}));
  EXPECT_THAT(message, testing::StartsWith("graph `by_hand`: launch 2, `add` (model.cpp:5:9): "));
  EXPECT_THAT(message, HasSubstr("index 16"));
}

TEST(RunGraph, PlansThatLeaveTheirMemoryAreRefused) {
  using Home = graph::PlannedBuffer::Home;
  const std::vector<std::pair<std::function<void(Plan&)>, std::string>> cases = {
      {[](Plan& p) { p.arena_bytes = 64; }, "buffer 6 of 48 bytes is outside of its memory of 64"},
      {[](Plan& p) { p.buffers[6].offset = 32; }, "buffer 6 is not aligned"},
      {[](Plan& p) { p.buffers[0].bytes = p.buffers[0].bytes + 4; },
       "buffer 0 of 52 bytes is outside of its memory of 48"},
      {[](Plan& p) { p.buffers[4].bytes = 64; }, "buffer 4 of 64 bytes is outside of its memory of 16"},
      {[](Plan& p) { p.buffers[8].bytes = 8; }, "buffer 8 of 8 bytes is outside of its memory of 4"},
      {[](Plan& p) { p.buffers[5].bytes = -4; }, "buffer 5 has -4 bytes"},
      {[](Plan& p) { p.launches[0].arguments[2].offset = 64; },
       "launch 0, `scale` (model.cpp:3:9): `out` is outside of its buffer"},
      {[](Plan& p) { p.buffers[5] = {Home::kArena, 0, 1024, 48}; },
       "buffer 5 of 48 bytes is outside of its memory of 128"},
  };
  const std::vector<float> x(12), state(12);
  for (const auto& [change, says] : cases) {
    Plan plan = hand_plan();
    change(plan);
    auto result = loaded(plan)({array(x, {3, 4}), array(state, {3, 4})});
    ASSERT_FALSE(result) << says;
    EXPECT_EQ(result.error().code, ErrorCode::kInternal);
    EXPECT_EQ(result.error().message, "the plan of graph `by_hand` is wrong: " + says);
  }
}

TEST(RunGraph, ScalarsThatDoNotFitAreRefused) {
  Plan plan = hand_plan();
  const graph::Expr n = graph::Expr::constexpr_ref(0);
  plan.launches[1].arguments[3].scalar = n * 3'000'000'000;
  const std::vector<float> x(12), state(12);
  EXPECT_EQ(failure(loaded(plan)({array(x, {3, 4}), array(state, {3, 4})})),
            "launch 1, `add` (model.cpp:4:9): `n` is 9000000000, which no i32 is");
}

TEST(RunGraph, StopsBetweenLaunches) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x(12), state(12);
  std::stop_source stop;
  stop.request_stop();
  const auto result = fn({array(x, {3, 4}), array(state, {3, 4})}, {.cancel = stop.get_token()});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(result.error().message, "graph `by_hand`: cancelled before launch 0, `scale` (model.cpp:3:9)");
}

// Many threads, of different sizes, on one handle.
TEST(RunGraph, ThreadsRunOneHandle) {
  const CompiledGraph fn = loaded();
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 40; ++round) {
        const int64_t n = 1 + (thread * 7 + round) % 20, m = 4 * (1 + round % 3);
        const auto count = static_cast<size_t>(n * m);
        const std::vector<float> x = numbers(count, static_cast<float>(thread)), state = numbers(count, 3);
        auto results = fn({array(x, {n, m}), array(state, {n, m})}, {.threads = 1});
        const Expected expected(x, state, static_cast<size_t>(m));
        const bool right = results && std::ranges::equal((*results)[0].as<float>(), expected.y) &&
                           std::ranges::equal((*results)[2].as<float>(), expected.last);
        if (!right) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(RunGraph, ExplainsItself) {
  const CompiledGraph fn = loaded();
  EXPECT_EQ(fn.explain({{"n", 3}, {"m", 4}}),
            "graph by_hand for interp: 5 launches of 2 kernels, arena of 128 bytes\n"
            "\n"
            "   0  scale  scale       100 bytes  model.cpp:3:9\n"
            "   1  add    vector_add  144 bytes  model.cpp:4:9\n"
            "   2  add    vector_add  144 bytes  model.cpp:5:9\n"
            "   3  copy   scale       96 bytes\n"
            "   4  copy   scale       32 bytes   model.cpp:6:9\n"
            "\n"
            "next may take over the memory of state\n"
            "\n"
            "scale: alone, because it is by hand\n"
            "add: the same\n");
  EXPECT_THAT(fn.explain({{"m", 4}}), HasSubstr("48*n bytes"));
}

TEST(RunGraph, LoadingChecksThePlan) {
  Plan plan = hand_plan();
  plan.launches[0].kernel = 7;
  auto fn = client::load_plan(plan);
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().message, "plan: launch 0: its kernel is out of range");
  fn = client::load_plan(hand_plan("cpu:generic"));
  ASSERT_FALSE(fn);
  EXPECT_EQ(fn.error().message, "the plan of graph `by_hand` has 2 kernels, and there is code of 0");
}

TEST(OwnedArray, IsOfAnyShape) {
  auto empty = OwnedArray::allocate(dsl::ElementType::kF32, {3, 0});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->count(), 0);
  EXPECT_TRUE(empty->as<float>().empty());
  auto scalar = OwnedArray::allocate(dsl::ElementType::kBF16, {});
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->bytes(), 2u);
  EXPECT_EQ(scalar->as<bf16>().size(), 1u);
  auto large = OwnedArray::allocate(dsl::ElementType::kI64, {3 << 20});
  ASSERT_TRUE(large);
  std::ranges::fill(large->as<int64_t>(), 7);
  EXPECT_FALSE(OwnedArray::allocate(dsl::ElementType::kF32, {-1}));
  const auto huge = OwnedArray::allocate(dsl::ElementType::kF32, {int64_t{1} << 40, int64_t{1} << 40});
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace kiln
