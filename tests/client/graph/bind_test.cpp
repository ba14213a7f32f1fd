// Inputs that are bound: what is computed of them alone runs once, and results are the same.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "graph_service.h"
#include "kiln/graph/text.h"
#include "loaded_plan.h"

namespace kiln {
namespace {

using graph::Plan;
using planned::hand_plan;
using test::loaded;
using test::numbers;
using testing::ElementsAreArray;
using testing::HasSubstr;

CompiledGraph bound(const CompiledGraph& fn, const std::map<std::string, ArrayView>& inputs,
                    const RunOptions& options = {}) {
  auto out = fn.bind(inputs, options);
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : CompiledGraph();
}

std::string failure(const CompiledGraph& fn, const std::map<std::string, ArrayView>& inputs,
                    const RunOptions& options = {}) {
  auto out = fn.bind(inputs, options);
  EXPECT_FALSE(out);
  return out ? std::string() : out.error().message;
}

void expect_same(const Result<std::vector<OwnedArray>>& is, const Result<std::vector<OwnedArray>>& wanted) {
  ASSERT_TRUE(is) << is.error().message;
  ASSERT_TRUE(wanted) << wanted.error().message;
  ASSERT_EQ(is->size(), wanted->size());
  for (size_t i = 0; i < is->size(); ++i) {
    EXPECT_EQ((*is)[i].shape(), (*wanted)[i].shape());
    EXPECT_THAT((*is)[i].as<float>(), ElementsAreArray((*wanted)[i].as<float>())) << "output " << i;
  }
}

// Where x is bound, 2·x is there: launch 0 runs no more, and the arena has one buffer less that is used.
TEST(BindGraph, LaunchesOfBoundInputsAloneRunOnce) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1), state = numbers(12, -5);
  const CompiledGraph with_x = bound(fn, {{"x", array(x, {3, 4})}});
  EXPECT_EQ(fn.plan().launches.size(), 5u);
  EXPECT_EQ(with_x.plan().launches.size(), 4u);
  ASSERT_EQ(with_x.plan().inputs.size(), 1u);
  EXPECT_EQ(with_x.plan().inputs[0].name, "state");
  EXPECT_THAT(with_x.explain(), HasSubstr("bound: x; 1 launch of the plan ran once, and 1 buffer is kept\n"));
  std::vector<double> ms;
  for (int round = 0; round < 2; ++round) {
    expect_same(with_x({array(state, {3, 4})}, {.launch_ms = &ms}), fn({array(x, {3, 4}), array(state, {3, 4})}));
    EXPECT_EQ(ms.size(), 4u);
  }
  const auto memory = with_x.memory({{array(state, {3, 4})}});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->bound, 48u);
  EXPECT_EQ(fn.memory({{array(x, {3, 4}), array(state, {3, 4})}})->bound, 0u);
}

// The result is of the binding's time: what happens to a borrowed array later is not seen in what was computed of it.
TEST(BindGraph, WhatIsKeptIsNotComputedAgain) {
  const CompiledGraph fn = loaded();
  std::vector<float> x = numbers(12, 1);
  const std::vector<float> before = x, state = numbers(12, -5);
  const CompiledGraph with_x = bound(fn, {{"x", array(x, {3, 4})}});
  x.assign(12, 1000);
  expect_same(with_x({array(state, {3, 4})}), fn({array(before, {3, 4}), array(state, {3, 4})}));
}

TEST(BindGraph, TakesStridedInputsAndKeepsOwners) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1), state = numbers(12, -5);
  std::vector<float> transposed(12);
  for (size_t i = 0; i < 12; ++i) transposed[i % 4 * 3 + i / 4] = x[i];
  CompiledGraph strided = bound(fn, {{"x", array(transposed.data(), {3, 4}, {1, 3})}});
  const auto wanted = fn({array(x, {3, 4}), array(state, {3, 4})});
  expect_same(strided({array(state, {3, 4})}), wanted);
  EXPECT_EQ(strided.memory({{array(state, {3, 4})}})->bound, 96u);

  auto own = OwnedArray::allocate(dsl::ElementType::kF32, {3, 4});
  ASSERT_TRUE(own);
  std::ranges::copy(x, own->as<float>().begin());
  const CompiledGraph owning = bound(fn, {{"x", *own}});
  *own = OwnedArray();
  expect_same(owning({array(state, {3, 4})}), wanted);
}

// What bound inputs say of sizes is fixed; other dims are still each run's.
TEST(BindGraph, FixesSizesThatBoundInputsSay) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1), other(24);
  const CompiledGraph with_x = bound(fn, {{"x", array(x, {3, 4})}});
  const auto says = [&](const Result<std::vector<OwnedArray>>& result) {
    EXPECT_FALSE(result);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(says(with_x({array(other.data(), {3, 8})})),
            "input `state` is f32[3, 8]; the graph declares f32[3, 4]: axis 1 is 8, not 4");
  EXPECT_EQ(says(with_x({array(other.data(), {3, 4})}, {.sizes = {{"n", 4}}})),
            "graph `by_hand`: n is 3 by what is bound, and was given as 4");
  EXPECT_TRUE(with_x({array(other.data(), {3, 4})}, {.sizes = {{"n", 3}}}));

  Plan plan = hand_plan();  // `x` no longer says n: nothing of it is known before a run
  plan.inputs[0].type.shape = {graph::Expr::constexpr_ref(1)};
  plan.buffers[0].bytes = 4 * graph::Expr::constexpr_ref(1);
  plan.launches[0].arguments[3].scalar = graph::Expr::constexpr_ref(0);  // so many elements
  const CompiledGraph rows = loaded(plan);
  const std::vector<float> row = numbers(8, 1);
  EXPECT_EQ(bound(rows, {{"x", array(row, {8})}}).plan().launches.size(), 5u);
  EXPECT_EQ(bound(rows, {{"x", array(row, {8})}}, {.sizes = {{"n", 2}}}).plan().launches.size(), 4u);
}

TEST(BindGraph, RefusesWhatCannotBeBound) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1);
  const ArrayView good = array(x, {3, 4});
  EXPECT_EQ(failure(fn, {{"w", good}}), "graph `by_hand`: no input `w` to bind; it has x, state");
  EXPECT_EQ(failure(fn, {{"state", good}}),
            "graph `by_hand`: input `state` is donated to output `next`, and cannot be bound");
  EXPECT_EQ(failure(fn, {{"x", array(x, {12})}}), "input `x` is f32[12]; the graph declares f32[n, m]");
  EXPECT_EQ(failure(fn, {{"x", array(static_cast<const float*>(nullptr), {3, 4})}}),
            "input `x` is f32[3, 4], but its data are null");
  EXPECT_EQ(failure(fn, {{"x", good}}, {.memory_limit = 47}),
            "graph `by_hand` needs 48 bytes for what is bound: 48 of results that are kept, 0 of copies of inputs; the "
            "limit is 47");
  EXPECT_EQ(failure(bound(fn, {{"x", good}}), {{"x", good}}), "graph `by_hand`: input `x` is bound already");
  EXPECT_EQ(failure(CompiledGraph(), {}), "run of an empty handle of a graph");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(failure(fn, {{"x", good}}, {.cancel = stop.get_token()}),
            "graph `by_hand`: cancelled before launch 0, `scale` (model.cpp:3:9)");
}

TEST(BindGraph, OutputsDoNotOverlapWhatIsBound) {
  const CompiledGraph fn = loaded();
  std::vector<float> x = numbers(12, 1), state(12), y(12), last(4);
  const CompiledGraph with_x = bound(fn, {{"x", array(x, {3, 4})}});
  const std::vector<ArrayView> inputs = {array(state, {3, 4})};
  const std::vector<ArrayView> outputs = {donated(y, {3, 4}), donated(x, {3, 4}), donated(last, {4})};
  EXPECT_EQ(with_x.run_into(inputs, outputs).error().message, "output `next` overlaps input `x`, which is bound");
  // A donated input that lies in what is bound stays as it is.
  const std::vector<float> before = x;
  ASSERT_TRUE(with_x({donated(x, {3, 4})}));
  EXPECT_EQ(x, before);
}

TEST(BindGraph, BindsMoreToAHandleThatHasSome) {
  Plan plan = hand_plan();
  plan.in_place = {graph::kNone, graph::kNone, graph::kNone};
  const CompiledGraph fn = loaded(plan);
  const std::vector<float> x = numbers(12, 1), state = numbers(12, -5);
  const CompiledGraph both = bound(bound(fn, {{"x", array(x, {3, 4})}}), {{"state", array(state, {3, 4})}});
  EXPECT_TRUE(both.plan().inputs.empty());
  EXPECT_EQ(both.plan().launches.size(), 4u);  // each reads or writes a result
  expect_same(both({}), fn({array(x, {3, 4}), array(state, {3, 4})}));
}

TEST(BindGraph, ThreadsRunOneBoundHandle) {
  const CompiledGraph fn = loaded();
  const std::vector<float> x = numbers(12, 1);
  const CompiledGraph with_x = bound(fn, {{"x", array(x, {3, 4})}});
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 20; ++round) {
        const std::vector<float> state = numbers(12, static_cast<float>(thread + round));
        auto results = with_x({array(state, {3, 4})}, {.threads = 1});
        for (size_t i = 0; i < 12 && results; ++i) {
          if ((*results)[0].as<float>()[i] != 4 * x[i] + state[i]) ++wrong;
        }
        if (!results) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// Through a daemon, with a planner's plans.
class BoundGraphs : public test::GraphService {
 protected:
  CompiledGraph compiled(const char* text, const GraphOptions& how = {}) {
    auto graph = graph::parse(text, "bound.kg");
    EXPECT_TRUE(graph) << graph.error().message;
    Client client(options());
    auto fn = client.compile(*graph, how);
    EXPECT_TRUE(fn) << fn.error().message;
    return fn ? *fn : CompiledGraph();
  }
};

// The scan of w is a launch of w alone; that of x is not.
constexpr const char* kScans = R"(dim n: 1..64

graph scans(%x: f32[n, 8], %w: f32[8]) {
  %s = scan %w {kind = sum, axis = 0, reverse = 0, exclusive = 0} : f32[8]
  %b = broadcast %s {shape = [n, 8]} : f32[n, 8]
  %t = scan %x {kind = sum, axis = 1, reverse = 0, exclusive = 0} : f32[n, 8]
  %y = mul %t, %b : f32[n, 8]
  output y = %y
}
)";

TEST_F(BoundGraphs, OnePlanServesBoundAndFree) {
  const CompiledGraph fn = compiled(kScans);
  ASSERT_EQ(fn.plan().launches.size(), 3u) << fn.explain();
  const std::vector<float> w = numbers(8, 1), x = numbers(64 * 8, -3);
  const CompiledGraph with_w = bound(fn, {{"w", array(w, {8})}});
  EXPECT_EQ(with_w.plan().launches.size(), 2u) << with_w.explain();
  for (const int64_t n : {1, 5, 64}) {
    expect_same(with_w({array(x.data(), {n, 8})}), fn({array(x.data(), {n, 8}), array(w, {8})}));
  }
  EXPECT_EQ(compiles(), 1 + fn.plan().kernels.size());  // the plan, and its kernels: binding asks for nothing
}

TEST_F(BoundGraphs, RunsOnStreamsAndInRecordings) {
  const CompiledGraph fn = compiled(kScans);
  auto own = OwnedArray::allocate(dsl::ElementType::kF32, {8});
  ASSERT_TRUE(own);
  std::iota(own->as<float>().begin(), own->as<float>().end(), 1.0f);
  const std::vector<float> x = numbers(5 * 8, -3);
  std::vector<float> y(5 * 8), again(5 * 8);
  auto wanted = fn({array(x, {5, 8}), *own});
  ASSERT_TRUE(wanted);
  auto device = Device::open("cpu");
  ASSERT_TRUE(device);
  auto stream = Stream::create(*device);
  ASSERT_TRUE(stream);
  CompiledGraph with_w = bound(fn, {{"w", *own}});
  *own = OwnedArray();
  const std::vector<ArrayView> inputs = {array(x, {5, 8})};
  auto queued = with_w.run_into(inputs, std::vector{donated(y, {5, 8})}, {.stream = &*stream});
  ASSERT_TRUE(queued) << queued.error().message;
  ASSERT_TRUE(stream->synchronise());
  EXPECT_THAT(y, ElementsAreArray((*wanted)[0].as<float>()));

  auto recording = Recording::capture(
      *stream, [&] { return with_w.run_into(inputs, std::vector{donated(again, {5, 8})}, {.stream = &*stream}); });
  ASSERT_TRUE(recording) << recording.error().message;
  with_w = CompiledGraph();  // the recording keeps what is bound
  ASSERT_TRUE(recording->replay(*stream));
  ASSERT_TRUE(stream->synchronise());
  EXPECT_EQ(again, y);
}

// A loop over what is bound runs once, with all its passes; one that also reads what is free runs each time.
TEST_F(BoundGraphs, LoopsRunOnceAsAWhole) {
  const graph::Dim n = graph::dim("n", 1, 100);
  const auto powers =
      graph::graph("powers", {graph::input("x", graph::f32, {4}), graph::input("w", graph::f32, {n, 4})},
                   [&](graph::Tensor x, graph::Tensor w) {
                     const auto step = [&](graph::Tensors carried, graph::Tensors slices) {
                       return graph::LoopStep{{carried[0] * 2.0 + slices[0]}, {}};
                     };
                     graph::Tensor of_w = graph::loop(n, {graph::zeros(graph::f32, {4})}, {w}, step).carried[0];
                     graph::Tensor of_x = graph::loop(n, {x}, {w}, step).carried[0];
                     return of_w + of_x;
                   });
  ASSERT_TRUE(powers.ir()) << powers.ir().error().message;
  Client client(options());
  auto fn = client.compile(powers);
  ASSERT_TRUE(fn) << fn.error().message;
  ASSERT_EQ(fn->plan().loops.size(), 2u) << fn->explain();
  const std::vector<float> x = numbers(4, 1), w = numbers(12, -2);
  const CompiledGraph with_w = bound(*fn, {{"w", array(w, {3, 4})}});
  EXPECT_EQ(with_w.plan().loops.size(), 1u) << with_w.explain();
  EXPECT_LT(with_w.plan().launches.size(), fn->plan().launches.size());
  expect_same(with_w({array(x, {4})}), (*fn)({array(x, {4}), array(w, {3, 4})}));
  const CompiledGraph with_x = bound(*fn, {{"x", array(x, {4})}});
  EXPECT_EQ(with_x.plan().loops.size(), 2u);
  expect_same(with_x({array(w, {3, 4})}), (*fn)({array(x, {4}), array(w, {3, 4})}));
}

}  // namespace
}  // namespace kiln
