// Graphs compiled through a daemon beside the evaluator, each at two sizes of its dims from one plan, with
// KILN_TEST_ALL at three: every op of the table, and random graphs. On this machine's CPU, or where KILN_TEST_TARGETS
// says. KILN_RANDOM_GRAPHS says how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "graph/compare.h"
#include "graph/convolutions.h"
#include "graph/library_graphs.h"
#include "graph/random_graph.h"
#include "graph_service.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/text.h"
#include "sampled.h"

namespace kiln {
namespace {

using graph::TensorOp;

std::string target() {
  const char* wanted = std::getenv("KILN_TEST_TARGETS");
  return wanted && *wanted ? wanted : "cpu";
}

uint64_t count_of(uint64_t usual) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  return asked ? std::strtoull(asked, nullptr, 10) : usual;
}

graph::Array copy_of(const OwnedArray& array) {
  graph::Array out = graph::own(array.element(), array.shape());
  if (array.bytes() > 0) std::memcpy(out.storage->data(), array.data(), array.bytes());
  return out;
}

class CompiledGraphs : public test::GraphService {
 protected:
  void SetUp() override {
    GraphService::SetUp();
    client_.emplace(options());
  }
  void TearDown() override {
    client_.reset();
    GraphService::TearDown();
  }

  enum class Outcome : uint8_t { kChecked, kNowhere };  // nowhere: of indices that the evaluator refuses

  // Fails the test where the compiled graph gives other results than the evaluator.
  // `prepared`: by code for just these sizes and arrays, else by what is for all.
  Outcome check(const random_graph::Case& made, uint64_t seed, bool prepared) {
    const auto fn = client_->compile(made.graph, {.target = target()});
    if (!fn) {
      ADD_FAILURE() << "seed " << seed << ": " << fn.error().message << "\n" << graph::print(made.graph);
      return Outcome::kChecked;
    }
    Outcome out = Outcome::kNowhere;
    std::mt19937_64 random(seed);
    random_graph::Case sized = made;
    const int sizes = made.graph.dims.empty() ? 1 : test::runs_all_cases() ? 3 : 2;
    for (int i = 0; i < sizes; ++i) {
      if (i > 0) sized.sizes = random_graph::draw_sizes(made.graph, random);
      const std::string wrong = difference(*fn, sized, seed, prepared);
      if (wrong == kNowhere) continue;
      out = Outcome::kChecked;
      EXPECT_EQ(wrong, "") << "seed " << seed << random_graph::sizes_text(sized) << "\n" << graph::print(made.graph);
      if (!wrong.empty()) break;
    }
    return out;
  }

 private:
  static constexpr const char* kNowhere = "an index is nowhere";

  static std::string difference(const CompiledGraph& fn, const random_graph::Case& made, uint64_t seed, bool prepared) {
    const auto inputs = random_graph::inputs(made, seed);
    const auto expected = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false});
    const auto wide = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false, .wide = true});
    if (!expected || !wide) return kNowhere;
    std::vector<ArrayView> views;
    for (const graph::Array& input : inputs) views.push_back({input.element, input.shape, input.strides, input.data});
    if (prepared) {
      if (const auto done = fn.prepare(views, {.sizes = made.sizes}); !done) return done.error().message;
    }
    const auto results = fn(views, {.sizes = made.sizes});
    if (!results) return results.error().message;
    std::vector<graph::Array> actual;
    for (const OwnedArray& result : *results) actual.push_back(copy_of(result));
    return test::difference(actual, *expected, {.coarsest = test::coarsest_float(made.graph), .wide = *wide});
  }

  std::optional<Client> client_;
};

// A sixteenth of the table each, so that a device that a kernel breaks costs few ops.
class EveryOp : public CompiledGraphs, public testing::WithParamInterface<size_t> {};

TEST_P(EveryOp, IsTheEvaluators) {
  const uint64_t wanted = count_of(1);
  for (size_t row = GetParam(); row < graph::op_table().size(); row += 16) {
    const TensorOp op = graph::op_table()[row].op;
    uint64_t checked = 0;
    for (uint64_t seed = 0; seed < 20 + 8 * wanted && checked < wanted; ++seed) {
      random_graph::Options options{.nodes = 2, .kernels = op == TensorOp::kKernel, .first = {op}};
      options.may = [&](TensorOp other) {
        return other == op || graph::info(other).family == graph::Family::kElementwise || other == TensorOp::kReshape;
      };
      const auto made = random_graph::make(seed, options);
      ASSERT_TRUE(made) << made.error().message;
      if (check(*made, seed, row / 16 % 2 != 0) == Outcome::kChecked) ++checked;
    }
    EXPECT_GT(checked, 0u) << graph::info(op).name << ": nothing was checked";
  }
}
INSTANTIATE_TEST_SUITE_P(Sixteen, EveryOp, testing::Range<size_t>(0, 16));

// Each with its gradients, at two batches from one plan.
TEST_F(CompiledGraphs, OfConvolutionsAreTheEvaluators) {
  for (const test::Convolution& each : test::convolutions()) {
    if (!test::is_sampled(2)) continue;
    const auto forward = test::network(each, graph::dim("n", 1, 64), graph::f32);
    const auto def = value_and_grad(forward, {"x", "w", "scale", "bias"});
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    for (const int64_t n : {1, 3}) {
      EXPECT_EQ(check({*def.ir(), {{"n", n}}}, 5, n == 3), Outcome::kChecked) << each.name;
    }
    if (HasFailure()) return;
  }
}

// Functions that are made of others, those of floats with their gradients.
TEST_F(CompiledGraphs, OfLibraryFunctionsAreTheEvaluators) {
  for (const test::LibraryGraph& each : test::library_graphs()) {
    if (!test::is_sampled(4)) continue;
    ASSERT_TRUE(each.graph.ir()) << each.name << ": " << each.graph.ir().error().message;
    for (const auto& sizes : test::sampled(each.sizes, 1)) {
      const bool last = sizes == each.sizes.back();
      EXPECT_EQ(check({*each.graph.ir(), sizes}, 5, last), Outcome::kChecked) << each.name;
    }
  }
}

class RandomGraphs : public CompiledGraphs, public testing::WithParamInterface<uint64_t> {};

TEST_P(RandomGraphs, AreTheEvaluators) {
  const uint64_t count = count_of(40);
  uint64_t checked = 0, tried = 0;
  for (uint64_t seed = GetParam(); seed < count; seed += 16, ++tried) {
    random_graph::Options options{.nodes = 3 + static_cast<int>(seed % 6), .bodies = seed % 4 == 3, .kernels = false};
    if (seed % 3 != 0) options.elements = {graph::f32, graph::i32, graph::i1};
    options.may = random_graph::is_comparable;
    const auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made) << made.error().message;
    if (check(*made, seed, seed / 4 % 2 != 0) == Outcome::kChecked) ++checked;
  }
  EXPECT_GE(checked, tried / 2);
}
INSTANTIATE_TEST_SUITE_P(Sixteen, RandomGraphs, testing::Range<uint64_t>(0, 16));

// Attention is a kernel of its own, with blocks that hold more than the small sizes of random graphs.
class AttentionGraphs : public CompiledGraphs, public testing::WithParamInterface<graph::ElementType> {
 protected:
  // q, k and v are rows of one product each, heads beside each other; so is the result.
  static graph::GraphDef of_rows(graph::ElementType type, int groups, graph::AttentionOptions options, bool hides) {
    const graph::Dim b = graph::dim("b", 1, 64), m = graph::dim("m", 1, 4096), n = graph::dim("n", 1, 4096);
    const auto heads = [=](const graph::Tensor& x, const graph::Dim& places, int count) {
      return permute(reshape(x, {b, places, count, 24}), {0, 2, 1, 3});
    };
    return graph::graph("rows",
                        {graph::input("q", type, {b, m, 96}), graph::input("k", type, {b, n, 24 * groups}),
                         graph::input("v", type, {b, n, 24 * groups}), graph::input("tokens", graph::i64, {b, n})},
                        [=](graph::Tensor q, graph::Tensor k, graph::Tensor v, graph::Tensor tokens) {
                          const graph::Tensor seen = reshape(tokens > 0, {b, 1, 1, n});
                          const graph::Tensor y = attention(heads(q, m, 4), heads(k, n, groups), heads(v, n, groups),
                                                            options, hides ? graph::Operand(seen) : graph::Operand());
                          return tanh(reshape(permute(y, {0, 2, 1, 3}), {b, m, 96}));
                        });
  }
};

TEST_P(AttentionGraphs, AreTheEvaluators) {
  const std::pair<int, graph::AttentionOptions> forms[] = {{4, {}}, {1, {.causal = true}}, {2, {.window = 70}}};
  for (const auto& [groups, options] : forms) {
    const auto def = of_rows(GetParam(), groups, options, groups == 4);
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    for (const auto& [queries, keys] : {std::pair(200, 200), std::pair(1, 333), std::pair(130, 64)}) {
      const random_graph::Case made{*def.ir(), {{"b", 2}, {"m", queries}, {"n", keys}}};
      EXPECT_EQ(check(made, 1, keys == 200), Outcome::kChecked);
    }
  }
}
// Extents that are numbers, which blocks are made for.
TEST_P(AttentionGraphs, OfKnownSizesAreTheEvaluators) {
  for (const auto& [queries, keys, width] : {std::tuple(197, 197, 24), std::tuple(1, 300, 40), std::tuple(5, 7, 3)}) {
    const auto known = graph::graph(
        "known",
        {graph::input("q", GetParam(), {2, 6, queries, width}), graph::input("k", GetParam(), {2, 2, keys, width}),
         graph::input("v", GetParam(), {2, 2, keys, width}), graph::input("bias", GetParam(), {6, queries, keys})},
        [](graph::Tensor q, graph::Tensor k, graph::Tensor v, graph::Tensor bias) {
          return attention(q, k, v, {.causal = true}, bias);
        });
    ASSERT_TRUE(known.ir()) << known.ir().error().message;
    EXPECT_EQ(check({*known.ir(), {}}, 1, false), Outcome::kChecked);
  }
}
INSTANTIATE_TEST_SUITE_P(Types, AttentionGraphs, testing::Values(graph::f32, graph::bf16),
                         [](const auto& info) { return std::string(dsl::info(info.param).name); });

// What random graphs are too small for: long lines in order, bags of several tables, many updates, results of many
// parts.
class LargeGraphs : public CompiledGraphs, public testing::WithParamInterface<const char*> {};

TEST_P(LargeGraphs, AreTheEvaluators) {
  const auto graph = graph::parse(GetParam(), "large.kg");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(check({*graph, {}}, 1, false), Outcome::kChecked);
}
INSTANTIATE_TEST_SUITE_P(
    All, LargeGraphs,
    testing::Values(R"(graph sorts(%x: f32[3, 20001], %y: i8[40000], %z: bf16[9001, 2]) {
  %a, %i = sort %x {axis = 1, descending = 1} : f32[3, 20001], i64[3, 20001]
  %b, %j = sort %y {axis = 0, descending = 0} : i8[40000], i64[40000]
  %c, %k = sort %z {axis = 0, descending = 1} : bf16[9001, 2], i64[9001, 2]
  output a = %a
  output i = %i
  output b = %b
  output j = %j
  output c = %c
  output k = %k
})",
                    R"(graph firsts(%x: f32[2, 70001], %y: i8[65536], %z: f32[9, 50257]) {
  %a, %i = topk %x {k = 50, axis = 1, largest = 1} : f32[2, 50], i64[2, 50]
  %b, %j = topk %y {k = 300, axis = 0, largest = 0} : i8[300], i64[300]
  %c, %k = topk %z {k = 1000, axis = 1, largest = 0} : f32[9, 1000], i64[9, 1000]
  output a = %a
  output i = %i
  output b = %b
  output j = %j
  output c = %c
  output k = %k
})",
                    R"(graph bags(%s: f32[100, 64], %t: f32[70, 64], %u: bf16[100, 24],
    %i: i64[2000], %w: f32[2000], %o: i64[300]) {
  %seventy = full {type = i64, shape = [2000], value = 70} : i64[2000]
  %ids = rem %i, %seventy : i64[2000]
  %most = full {type = i64, shape = [300], value = 2001} : i64[300]
  %r = rem %o, %most : i64[300]
  %p = abs %r : i64[300]
  %starts, %from = sort %p {axis = 0, descending = 0} : i64[300], i64[300]
  %a = embedding_bag %s, %ids, %starts, %w {mode = sum} : f32[300, 64]
  %b = embedding_bag %t, %ids, %starts {mode = mean} : f32[300, 64]
  %c = embedding_bag %u, %ids, %starts {mode = max} : bf16[300, 24]
  output a = %a
  output b = %b
  output c = %c
})",
                    R"(graph updates(%x: f32[500, 64], %v: f32[40, 50, 64], %i: i64[40, 50], %y: i32[90],
    %u: i32[3000], %j: i64[3000]) {
  %m = full {type = i64, shape = [40, 50], value = 500} : i64[40, 50]
  %k = rem %i, %m : i64[40, 50]
  %a = index_put %x, %v, %k {axes = [0], kind = add} : f32[500, 64]
  %b = index_put %x, %v, %k {axes = [0], kind = set} : f32[500, 64]
  %n = full {type = i64, shape = [3000], value = 90} : i64[3000]
  %l = rem %j, %n : i64[3000]
  %c = scatter %y, %l, %u {axis = 0, kind = max} : i32[90]
  output a = %a
  output b = %b
  output c = %c
})",
                    R"(graph parts(%a: f32[300, 40], %b: f32[300, 40]) {
  %c = exp %a : f32[300, 40]
  %y = cat %a, %b, %c, %b, %a, %a, %c, %b, %a, %c, %b {axis = 1} : f32[300, 440]
  %z = neg %y : f32[300, 440]
  output y = %y
  output z = %z
})"),
    [](const auto& info) {
      const std::string text = info.param;
      return text.substr(6, text.find('(') - 6);
    });

class SomeGraphs : public test::GraphService {};

// A dim that only what nothing needs mentions is gone from the plan; who gives its size does not have to know.
TEST_F(SomeGraphs, SizesOfDimsWithoutUseAreTaken) {
  const graph::Dim n = graph::dim("n", 1, 64), unused = graph::dim("unused", 1, 64);
  const auto both = graph::graph("both", {graph::input("x", graph::f32, {n})}, [&](graph::Tensor x) {
    static_cast<void>(graph::zeros(graph::f32, {unused}));
    return x + 1.0;
  });
  ASSERT_TRUE(both.ir()) << both.ir().error().message;
  Client client(options());
  const auto fn = client.compile(both, {.target = target()});
  ASSERT_TRUE(fn) << fn.error().message;
  const std::vector<float> x(8, 1);
  const std::vector<ArrayView> inputs{array(x, {8})};
  const auto done = (*fn)(inputs, {.sizes = {{"unused", 5}}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ((*done)[0].as<float>()[7], 2);
  EXPECT_FALSE((*fn)(inputs, {.sizes = {{"nobody", 5}}}));
}

// Runs on a CPU's stream, and recorded.
TEST_F(SomeGraphs, RunOnAStreamOfTheProcessors) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  const auto program = graph::graph("program", {graph::input("x", graph::f32, {n, 64})}, [&](graph::Tensor x) {
    return graph::softmax(x * 2.0, -1) + graph::sum(x, {1}, true);
  });
  Client client(options());
  const auto fn = client.compile(program, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  std::vector<float> x(256 * 64), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  const std::vector<ArrayView> inputs{array(x, {256, 64})}, outputs{donated(y, {256, 64})};
  std::vector<double> times;
  const auto expected = (*fn)(inputs, {.launch_ms = &times});
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(times.size(), fn->plan().launches.size());

  const auto device = Device::open("cpu");
  ASSERT_TRUE(device);
  const auto stream = Stream::create(*device);
  ASSERT_TRUE(stream);
  const RunOptions queued{.stream = &*stream};
  const auto is_right = [&] {
    const bool out = std::memcmp(y.data(), (*expected)[0].data(), y.size() * sizeof(float)) == 0;
    std::fill(y.begin(), y.end(), 0.0f);
    return out;
  };
  for (int round = 0; round < 20; ++round) ASSERT_TRUE(fn->run_into(inputs, outputs, queued));
  ASSERT_TRUE(stream->synchronise());
  EXPECT_TRUE(is_right());
  const auto recording = Recording::capture(*stream, [&] { return fn->run_into(inputs, outputs, queued); });
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_FALSE(is_right());  // nothing ran
  ASSERT_TRUE(recording->replay(*stream));
  ASSERT_TRUE(stream->synchronise());
  EXPECT_TRUE(is_right());
}

// What a run would ask for behind itself is there before it.
TEST_F(SomeGraphs, ArePreparedForArrays) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  const auto program =
      graph::graph("program", {graph::input("x", graph::f32, {n, 64}), graph::input("w", graph::f32, {64, 64})},
                   [&](graph::Tensor x, graph::Tensor w) { return graph::softmax(matmul(x, w), -1); });
  Client client(options());
  const auto fn = client.compile(program, {.target = target()});
  ASSERT_TRUE(fn) << fn.error().message;
  std::vector<float> x(16 * 64, 1.5f), w(64 * 64, 0.25f);
  const std::vector<ArrayView> inputs{array(x, {16, 64}), array(w, {64, 64})};
  const uint64_t before = compiles();
  const auto prepared = fn->prepare(inputs);
  ASSERT_TRUE(prepared) << prepared.error().message;
  const uint64_t after = compiles();
  EXPECT_GT(after, before);
  ASSERT_TRUE(fn->prepare(inputs));
  const auto done = (*fn)(inputs);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_FLOAT_EQ((*done)[0].as<float>()[5], 1.0f / 64);
  EXPECT_EQ(compiles(), after);
  EXPECT_FALSE(fn->prepare({}));
}

// No launch writes a result without elements.
TEST_F(SomeGraphs, ResultsMayBeEmpty) {
  const auto empty = graph::graph("empty", {graph::input("x", graph::f32, {4, 0})}, [](graph::Tensor x) {
    return graph::Outputs{{"none", exp(x)}, {"sums", sum(x, {1})}};
  });
  Client client(options());
  const auto fn = client.compile(empty, {.target = target()});
  ASSERT_TRUE(fn) << fn.error().message;
  const auto done = (*fn)({array(static_cast<const float*>(nullptr), {4, 0})});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ((*done)[0].count(), 0);
  EXPECT_EQ((*done)[1].as<float>()[3], 0);
}

}  // namespace
}  // namespace kiln
